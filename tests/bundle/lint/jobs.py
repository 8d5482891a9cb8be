"""Rules about jobs: when they start, on which runtime, how many at once, and who hears of it."""

from collections.abc import Iterator
from typing import Any
from zoneinfo import available_timezones

from tests.bundle.lint import quartz
from tests.bundle.lint.finding import Finding, Rule
from tests.bundle.lint.reading import Bundle, resolved

TIME_ZONES = available_timezones()
ENVIRONMENT_VERSIONS = {"1", "2", "3", "4", "5"}
RUNTIMES = {"15.4.x-scala2.12", "16.4.x-scala2.12", "16.4.x-scala2.13", "17.3.x-scala2.13"}


def bad_schedule(bundle: Bundle) -> Iterator[Finding]:
    for kind in ("jobs", "alerts"):
        for key, resource in bundle.resources.get(kind, {}).items():
            schedule = resource.get("schedule", {})
            expression = schedule.get("quartz_cron_expression") or schedule.get(
                "quartz_cron_schedule"
            )
            expression = resolved(expression, bundle.known)
            wrong = quartz.problem(expression) if expression else None
            if wrong:
                yield Finding("bad_cron", f"{kind}.{key}", f"{expression}: {wrong}")
            if schedule and schedule.get("timezone_id") not in TIME_ZONES:
                yield Finding("bad_time_zone", f"{kind}.{key}", str(schedule.get("timezone_id")))


def unprefixed_name(bundle: Bundle) -> Iterator[Finding]:
    """Two bundles in one workspace are told apart by the names of what they deploy."""
    for kind in ("alerts", "dashboards", "jobs", "sql_warehouses"):
        for key, resource in bundle.resources.get(kind, {}).items():
            name = resource.get("name", resource.get("display_name", ""))
            if not name.startswith("${bundle.name}"):
                yield Finding("unprefixed_name", f"{kind}.{key}", name)


def several_triggers(bundle: Bundle) -> Iterator[Finding]:
    for key, job in bundle.jobs.items():
        triggers = [name for name in ("continuous", "schedule", "trigger") if name in job]
        if len(triggers) > 1:
            yield Finding("several_triggers", f"jobs.{key}", " and ".join(triggers))


def unknown_runtime(bundle: Bundle) -> Iterator[Finding]:
    for key, job in bundle.jobs.items():
        for cluster in job.get("job_clusters", []):
            version = resolved(cluster["new_cluster"]["spark_version"], bundle.known)
            if version not in RUNTIMES:
                yield Finding("unknown_runtime", f"jobs.{key}", version)


def unknown_environment_version(bundle: Bundle) -> Iterator[Finding]:
    for place, spec in _environments(bundle):
        version = resolved(spec.get("environment_version"), bundle.known)
        if version not in ENVIRONMENT_VERSIONS and "client" not in spec:
            yield Finding("unknown_environment_version", place, str(version))


def deprecated_client(bundle: Bundle) -> Iterator[Finding]:
    for place, spec in _environments(bundle):
        if "client" in spec:
            yield Finding("deprecated_client", place, "environment_version has taken its place")


def several_runs(bundle: Bundle) -> Iterator[Finding]:
    """Unsaid, it is one in production, but four in development."""
    for key, job in bundle.jobs.items():
        if job.get("max_concurrent_runs") != 1:
            found = f"max_concurrent_runs: {job.get('max_concurrent_runs', 'not said')}"
            yield Finding("several_runs", f"jobs.{key}", found)


def unsaid_queue(bundle: Bundle) -> Iterator[Finding]:
    """Where a job says nothing of a queue, the CLI sends one, also where none is meant."""
    for key, job in bundle.jobs.items():
        if "enabled" not in job.get("queue", {}):
            yield Finding("unsaid_queue", f"jobs.{key}", "the CLI sends enabled: true")


def nobody_hears(bundle: Bundle) -> Iterator[Finding]:
    """Who asks another job for a run tells nothing: that job does. No other job is silent."""
    for key, job in bundle.jobs.items():
        tells = bool(job.get("email_notifications", {}).get("on_failure"))
        if all("run_job_task" in task for task in job["tasks"]):
            if tells:
                yield Finding("told_twice", f"jobs.{key}", "the job that it asks tells it")
            if not job.get("timeout_seconds"):
                yield Finding("missing_timeout", f"jobs.{key}", "it may hang for ever")
            continue
        if "on_failure" not in job.get("webhook_notifications", {}):
            yield Finding("missing_webhook", f"jobs.{key}", "no notification destination hears")
        if not job.get("health", {}).get("rules"):
            yield Finding("missing_health_rule", f"jobs.{key}", "no health rules")
        if not tells:
            yield Finding("missing_notification", f"jobs.{key}", "nobody hears of a failure")
        if not job.get("timeout_seconds") and "continuous" not in job:
            yield Finding("missing_timeout", f"jobs.{key}", "it may hang for ever")


def _environments(bundle: Bundle) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, job in bundle.jobs.items():
        for environment in job.get("environments", []):
            yield f"jobs.{key}.{environment['environment_key']}", environment["spec"]


RULES: tuple[Rule, ...] = (
    bad_schedule,
    unprefixed_name,
    several_triggers,
    unknown_runtime,
    unknown_environment_version,
    deprecated_client,
    several_runs,
    unsaid_queue,
    nobody_hears,
)
