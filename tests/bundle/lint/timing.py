"""Rules about time: timeouts that can be reached, retries that help, runs that do not pile up."""

from collections.abc import Iterator

from tests.bundle.lint import quartz
from tests.bundle.lint.finding import Finding, Rule
from tests.bundle.lint.graph import Task, dependencies
from tests.bundle.lint.reading import Bundle, resolved
from tests.bundle.lint.writers import command

FINAL = {"quality", "job"}
"""Commands that are not tried again: the next run goes on, or would find the same."""


def unreachable_timeout(bundle: Bundle) -> Iterator[Finding]:
    """A task ends before its job does; who asks for a run waits for one run before it at most."""
    for key, job in bundle.jobs.items():
        limit = job.get("timeout_seconds", 0)
        for task in job["tasks"]:
            place = f"jobs.{key}.{task['task_key']}"
            if limit and task.get("timeout_seconds", 0) >= limit:
                yield Finding("unreachable_timeout", place, f"not below the job's {limit}")
        for called in _called(bundle, job["tasks"]):
            longest = bundle.jobs[called]["timeout_seconds"]
            if limit and not longest < limit <= 2 * longest:
                found = f"{limit}, while a run of {called} ends after {longest}"
                yield Finding("unreachable_timeout", f"jobs.{key}", found)
        for rule in job.get("health", {}).get("rules", []):
            if limit and rule["metric"] == "RUN_DURATION_SECONDS" and rule["value"] >= limit:
                yield Finding("unreachable_timeout", f"jobs.{key}", "it ends before the warning")


def unlimited_task(bundle: Bundle) -> Iterator[Finding]:
    for key, job in bundle.jobs.items():
        for task in job["tasks"]:
            if "environment_key" in task and not task.get("timeout_seconds"):
                place = f"jobs.{key}.{task['task_key']}"
                yield Finding("unlimited_task", place, "no timeout_seconds")


def retries(bundle: Bundle) -> Iterator[Finding]:
    """A serverless task says how often it is tried again; what is final is never tried again.

    `max_retries: 0` alone is not enough: serverless auto-optimization adds retries of its own.
    """
    for key, job in bundle.jobs.items():
        for task in (task for task in job["tasks"] if "environment_key" in task):
            place = f"jobs.{key}.{task['task_key']}"
            if "max_retries" not in task:
                yield Finding("unsaid_retries", place, "no max_retries")
            never_said = task.get("max_retries") == 0
            if never_said and task.get("disable_auto_optimization") is not True:
                yield Finding("optimized_retries", place, "serverless adds retries of its own")
            never = task.get("max_retries") == 0 and task.get("disable_auto_optimization") is True
            if command(task) in FINAL and not never:
                yield Finding("retried_in_vain", place, "not max_retries 0 without optimization")


def unsaid_performance_target(bundle: Bundle) -> Iterator[Finding]:
    for key, job in bundle.jobs.items():
        if job.get("environments") and "performance_target" not in job:
            yield Finding("unsaid_performance_target", f"jobs.{key}", "what do minutes cost?")


def piling_up(bundle: Bundle) -> Iterator[Finding]:
    """What starts several times a day has no queue: a late run makes the next ones be skipped."""
    for key, job in bundle.jobs.items():
        cron = resolved(job.get("schedule", {}), bundle.known).get("quartz_cron_expression", "")
        hourly = quartz.problem(cron) is None and not cron.split()[2].isdigit()
        often = "trigger" in job or hourly
        if often and job.get("queue", {}).get("enabled") is not False:
            yield Finding("piling_up", f"jobs.{key}", "its queue may grow without an end")


def costly_alert(bundle: Bundle) -> Iterator[Finding]:
    """A query holds its warehouse for ten minutes: more than one an hour is a project's rent."""
    for key, alert in bundle.resources.get("alerts", {}).items():
        cron = resolved(alert["schedule"]["quartz_cron_schedule"], bundle.known)
        seconds_and_minutes = cron.split()[:2]
        if quartz.problem(cron) is None and not all(map(str.isdigit, seconds_and_minutes)):
            yield Finding("costly_alert", f"alerts.{key}", f"{cron}: several times an hour")


def direct_trigger(bundle: Bundle) -> Iterator[Finding]:
    """A job that others ask for needs its queue, so it has no trigger and no schedule."""
    asked = {called for job in bundle.jobs.values() for called in _called(bundle, job["tasks"])}
    for key in sorted(asked):
        job = bundle.jobs[key]
        if not job.get("queue", {}).get("enabled"):
            yield Finding("missing_queue", f"jobs.{key}", "what is asked for would be skipped")
        if {"continuous", "schedule", "trigger"} & job.keys():
            yield Finding("direct_trigger", f"jobs.{key}", "a job without a queue should ask")


def quiet_failure(bundle: Bundle) -> Iterator[Finding]:
    """A job's result is that of its last tasks: one before them that they go on after must tell."""
    for key, job in bundle.jobs.items():
        tasks = {task["task_key"]: task for task in job["tasks"]}
        tolerated = {
            name
            for task in tasks.values()
            for name in dependencies(task)
            if task.get("run_if", "ALL_SUCCESS") in ("ALL_DONE", "AT_LEAST_ONE_SUCCESS")
        }
        for name in sorted(tolerated & tasks.keys()):
            if not tasks[name].get("email_notifications", {}).get("on_failure"):
                yield Finding("quiet_failure", f"jobs.{key}.{name}", "nobody hears of its failure")


def _called(bundle: Bundle, tasks: list[Task]) -> Iterator[str]:
    """Keys of the jobs that the tasks ask for, those that the bundle declares."""
    ids = {bundle.known[f"resources.jobs.{key}.id"]: key for key in bundle.jobs}
    for task in tasks:
        called = resolved(task.get("run_job_task", {}).get("job_id", ""), bundle.known)
        if called in ids:
            yield ids[called]


RULES: tuple[Rule, ...] = (
    unreachable_timeout,
    unlimited_task,
    retries,
    unsaid_performance_target,
    piling_up,
    costly_alert,
    direct_trigger,
    quiet_failure,
)
