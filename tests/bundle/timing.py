"""Rules about time: timeouts that can be reached, retries that help, runs that do not pile up."""

import re
from collections.abc import Iterator
from graphlib import CycleError

from tests.bundle import quartz
from tests.bundle.finding import Finding, Rule
from tests.bundle.graph import Task, before
from tests.bundle.reading import Bundle, resolved
from tests.bundle.writers import command

FINAL = {"quality", "rebuild"}
"""Commands whose failure is a finding: a second attempt finds the same."""
TASK_VALUE = re.compile(r"\{\{\s*tasks\.(\w+)\.values\.(\w+)\s*\}\}")
TASK_VALUES = {"bronze": {"unapplied"}}
"""What each entry point sets."""


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
        cron = job.get("schedule", {}).get("quartz_cron_expression", "")
        hourly = quartz.problem(cron) is None and not cron.split()[2].isdigit()
        often = "trigger" in job or hourly
        if often and job.get("queue", {}).get("enabled") is not False:
            yield Finding("piling_up", f"jobs.{key}", "its queue may grow without an end")


def direct_trigger(bundle: Bundle) -> Iterator[Finding]:
    """A job that others ask for needs its queue, so it has no trigger and no schedule."""
    asked = {called for job in bundle.jobs.values() for called in _called(bundle, job["tasks"])}
    for key in sorted(asked):
        job = bundle.jobs[key]
        if not job.get("queue", {}).get("enabled"):
            yield Finding("missing_queue", f"jobs.{key}", "what is asked for would be skipped")
        if {"continuous", "schedule", "trigger"} & job.keys():
            yield Finding("direct_trigger", f"jobs.{key}", "a job without a queue should ask")


def idle_layers(bundle: Bundle) -> Iterator[Finding]:
    """Silver and gold come after a condition on a task value that bronze sets."""
    for key, job in bundle.jobs.items():
        try:
            earlier = before(job["tasks"])
        except CycleError:
            continue
        commands = {task["task_key"]: command(task) for task in job["tasks"]}
        gates = {
            task["task_key"]
            for task in job["tasks"]
            for name in TASK_VALUE.findall(task.get("condition_task", {}).get("left", ""))
            if commands.get(name[0]) == "bronze"
        }
        for task, name in commands.items():
            follows = "bronze" in commands.values() and name in ("silver", "gold")
            if follows and not gates & earlier[task]:
                yield Finding("idle_layers", f"jobs.{key}.{task}", "it starts for nothing")


def undeclared_task_value(bundle: Bundle) -> Iterator[Finding]:
    """A condition on a value that no task before it sets compares the reference's own text."""
    for key, job in bundle.jobs.items():
        try:
            earlier = before(job["tasks"])
        except CycleError:
            continue
        commands = {task["task_key"]: command(task) for task in job["tasks"]}
        for task in (task for task in job["tasks"] if "condition_task" in task):
            for of, name in TASK_VALUE.findall(task["condition_task"]["left"]):
                known = TASK_VALUES.get(str(commands.get(of)), set())
                if of not in earlier[task["task_key"]] or name not in known:
                    place = f"jobs.{key}.{task['task_key']}"
                    yield Finding("undeclared_task_value", place, f"tasks.{of}.values.{name}")


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
    direct_trigger,
    idle_layers,
    undeclared_task_value,
)
