"""Rules about jobs and their tasks: when they start and end, on what they run, who hears of it."""

import re
import sys
from collections import Counter
from graphlib import CycleError
from zoneinfo import available_timezones

from tests.bundle.lint import quartz
from tests.bundle.lint.finding import Faults, Fields, of_environments, of_resources, of_tasks
from tests.bundle.lint.graph import dependencies, find_called, order
from tests.bundle.lint.reading import Bundle, resolved
from tests.bundle.lint.writers import command
from tests.helpers.wheel import PROJECT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TIME_ZONES = available_timezones()
ENVIRONMENT_VERSIONS = {"1", "2", "3", "4", "5"}
RUNTIMES = {"15.4.x-scala2.12", "16.4.x-scala2.12", "16.4.x-scala2.13", "17.3.x-scala2.13"}
PACKAGE = re.compile(r"^cdc-lakehouse==|^\.\./dist/\*\.whl$|/cdc_lakehouse-[^/]+\.whl$")
"""The program by its name, or as a wheel."""
FINAL = {"quality", "job"}
"""Commands that are not tried again: the next run goes on, or would find the same."""
_PROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
STARTS = ("continuous", "schedule", "trigger")


@of_resources("jobs", "alerts")
def bad_schedule(bundle: Bundle, resource: Fields) -> Faults:
    schedule = resource.get("schedule", {})
    given = schedule.get("quartz_cron_expression") or schedule.get("quartz_cron_schedule")
    expression = resolved(given, bundle.known)
    if wrong := quartz.problem(expression) if expression else None:
        yield "bad_cron", f"{expression}: {wrong}"
    if schedule and schedule.get("timezone_id") not in TIME_ZONES:
        yield "bad_time_zone", str(schedule.get("timezone_id"))


@of_resources("alerts", "dashboards", "jobs", "sql_warehouses")
def unprefixed_name(_: Bundle, resource: Fields) -> Faults:
    """Two bundles in one workspace are told apart by the names of what they deploy."""
    name = resource.get("name", resource.get("display_name", ""))
    if not name.startswith("${bundle.name}"):
        yield name


@of_resources("jobs")
def several_triggers(_: Bundle, job: Fields) -> Faults:
    triggers = [name for name in STARTS if name in job]
    if len(triggers) > 1:
        yield " and ".join(triggers)


@of_resources("jobs")
def unknown_runtime(bundle: Bundle, job: Fields) -> Faults:
    for cluster in job.get("job_clusters", []):
        version = resolved(cluster["new_cluster"]["spark_version"], bundle.known)
        if version not in RUNTIMES:
            yield version


@of_environments
def unknown_environment_version(bundle: Bundle, spec: Fields) -> Faults:
    version = resolved(spec.get("environment_version"), bundle.known)
    if "client" in spec:
        yield "deprecated_client", "environment_version has taken its place"
    elif version not in ENVIRONMENT_VERSIONS:
        yield str(version)


@of_resources("jobs")
def several_runs(_: Bundle, job: Fields) -> Faults:
    """Unsaid, it is one in production, but four in development."""
    if job.get("max_concurrent_runs") != 1:
        yield f"max_concurrent_runs: {job.get('max_concurrent_runs', 'not said')}"


@of_resources("jobs")
def unsaid_queue(_: Bundle, job: Fields) -> Faults:
    """Where a job says nothing of a queue, the CLI sends one, also where none is meant."""
    if "enabled" not in job.get("queue", {}):
        yield "the CLI sends enabled: true"


@of_resources("jobs")
def nobody_hears(_: Bundle, job: Fields) -> Faults:
    """Who asks another job for a run tells nothing: that job does. No other job is silent."""
    tells = bool(job.get("email_notifications", {}).get("on_failure"))
    asks = all("run_job_task" in task for task in job["tasks"])
    if asks and tells:
        yield "told_twice", "the job that it asks tells it"
    if not job.get("timeout_seconds") and (asks or "continuous" not in job):
        yield "missing_timeout", "it may hang for ever"
    if not asks and "on_failure" not in job.get("webhook_notifications", {}):
        yield "missing_webhook", "no notification destination hears"
    if not asks and not job.get("health", {}).get("rules"):
        yield "missing_health_rule", "no health rules"
    if not asks and not tells:
        yield "missing_notification", "nobody hears of a failure"


@of_resources("jobs")
def duplicate_task_key(_: Bundle, job: Fields) -> Faults:
    for task, count in Counter(task["task_key"] for task in job["tasks"]).items():
        if count > 1:
            yield f"{count} tasks {task}"


@of_tasks
def unknown_dependency(_: Bundle, job: Fields, task: Fields) -> Faults:
    yield from sorted({*dependencies(task)} - {each["task_key"] for each in job["tasks"]})


@of_resources("jobs")
def circular_dependency(_: Bundle, job: Fields) -> Faults:
    try:
        order(job["tasks"])
    except CycleError as circle:
        yield " -> ".join(circle.args[1])


@of_tasks
def wrong_outcome(_: Bundle, job: Fields, task: Fields) -> Faults:
    """An outcome belongs to a dependency on a condition, and only there."""
    conditions = {each["task_key"] for each in job["tasks"] if "condition_task" in each}
    for dependency in task.get("depends_on", []):
        if ("outcome" in dependency) != (dependency["task_key"] in conditions):
            yield dependency["task_key"]


@of_tasks
def undefined_compute(_: Bundle, job: Fields, task: Fields) -> Faults:
    """A wheel task names one environment or one job cluster, and the job declares it."""
    for field, declared in (
        ("environment_key", "environments"),
        ("job_cluster_key", "job_clusters"),
    ):
        if task.get(field) not in {None, *(item[field] for item in job.get(declared, []))}:
            yield f"undefined_{field}", task[field]


@of_tasks
def missing_wheel(bundle: Bundle, job: Fields, task: Fields) -> Faults:
    if "python_wheel_task" not in task:
        return
    specs = {item["environment_key"]: item["spec"] for item in job.get("environments", [])}
    installed = [*specs.get(task.get("environment_key"), {}).get("dependencies", [])]
    for library in task.get("libraries", []):
        installed.append(library.get("whl", library.get("pypi", {}).get("package", "")))
    if not any(PACKAGE.search(text) for text in resolved(installed, bundle.known)):
        yield "no cdc-lakehouse"


@of_tasks
def missing_entry_point(_: Bundle, __: Fields, task: Fields) -> Faults:
    """Databricks looks the entry point up in the metadata of the distribution `package_name`."""
    if wheel := task.get("python_wheel_task"):
        if wheel["package_name"] != _PROJECT["name"].replace("-", "_"):
            yield "unknown_package", wheel["package_name"]
        if wheel["entry_point"] not in _PROJECT["scripts"]:
            yield wheel["entry_point"]


@of_resources("jobs")
def unreachable_timeout(bundle: Bundle, job: Fields) -> Faults:
    """A task ends before its job does; who asks for a run waits for one run before it at most."""
    limit = job.get("timeout_seconds", 0)
    if not limit:
        return
    for task in job["tasks"]:
        if task.get("timeout_seconds", 0) >= limit:
            yield f"{task['task_key']}: not below the job's {limit}"
    for called in find_called(bundle, job):
        longest = bundle.jobs[called]["timeout_seconds"]
        if not longest < limit <= 2 * longest:
            yield f"{limit}, while a run of {called} ends after {longest}"
    for rule in job.get("health", {}).get("rules", []):
        if rule["metric"] == "RUN_DURATION_SECONDS" and rule["value"] >= limit:
            yield "it ends before the warning"


@of_tasks
def unlimited_task(_: Bundle, __: Fields, task: Fields) -> Faults:
    if "environment_key" in task and not task.get("timeout_seconds"):
        yield "no timeout_seconds"


@of_tasks
def retries(_: Bundle, __: Fields, task: Fields) -> Faults:
    """A serverless task says how often it is tried again; what is final is never tried again.

    `max_retries: 0` alone is not enough: serverless auto-optimization adds retries of its own.
    """
    if "environment_key" not in task:
        return
    is_optimized = task.get("disable_auto_optimization") is not True
    if "max_retries" not in task:
        yield "unsaid_retries", "no max_retries"
    if task.get("max_retries") == 0 and is_optimized:
        yield "optimized_retries", "serverless adds retries of its own"
    if command(task) in FINAL and (task.get("max_retries") != 0 or is_optimized):
        yield "retried_in_vain", "not max_retries 0 without optimization"


@of_resources("jobs")
def unsaid_performance_target(_: Bundle, job: Fields) -> Faults:
    if job.get("environments") and "performance_target" not in job:
        yield "what do minutes cost?"


@of_resources("jobs")
def piling_up(bundle: Bundle, job: Fields) -> Faults:
    """What starts several times a day has no queue: a late run makes the next ones be skipped."""
    cron = resolved(job.get("schedule", {}), bundle.known).get("quartz_cron_expression", "")
    hourly = quartz.problem(cron) is None and not cron.split()[2].isdigit()
    if ("trigger" in job or hourly) and job.get("queue", {}).get("enabled") is not False:
        yield "its queue may grow without an end"


@of_resources("alerts")
def costly_alert(bundle: Bundle, alert: Fields) -> Faults:
    """A query holds its warehouse for ten minutes: more than one an hour is a project's rent."""
    cron = resolved(alert["schedule"]["quartz_cron_schedule"], bundle.known)
    if quartz.problem(cron) is None and not all(map(str.isdigit, cron.split()[:2])):
        yield f"{cron}: several times an hour"


@of_resources("jobs")
def direct_trigger(bundle: Bundle, job: Fields) -> Faults:
    """A job that others ask for needs its queue, so it has no trigger and no schedule."""
    asked = {called for each in bundle.jobs.values() for called in find_called(bundle, each)}
    if not any(bundle.jobs[key] is job for key in asked):
        return
    if not job.get("queue", {}).get("enabled"):
        yield "missing_queue", "what is asked for would be skipped"
    if {*STARTS} & job.keys():
        yield "a job without a queue should ask"


@of_tasks
def quiet_failure(_: Bundle, job: Fields, task: Fields) -> Faults:
    """A job's result is that of its last tasks: one before them that they go on after must tell."""
    goes_on = ("ALL_DONE", "AT_LEAST_ONE_SUCCESS")
    is_tolerated = any(
        task["task_key"] in dependencies(each) and each.get("run_if", "ALL_SUCCESS") in goes_on
        for each in job["tasks"]
    )
    if is_tolerated and not task.get("email_notifications", {}).get("on_failure"):
        yield "nobody hears of its failure"
