"""One writer per table at a time: which tasks write what, and which of them can run at once."""

from collections.abc import Iterator
from graphlib import CycleError
from itertools import combinations
from typing import Any

from tests.bundle.lint.finding import Finding, rule
from tests.bundle.lint.graph import before, dependencies, find_called
from tests.bundle.lint.reading import Bundle, resolved

EVERY_TABLE = "*"
LAYERS = {
    "bronze": ("bronze",),
    "silver": ("silver",),
    "gold": ("gold",),
    "run": ("bronze", "silver", "gold"),
    "job": ("bronze", "silver", "gold"),
    "dead-letters": ("silver",),
    "rebuild": ("silver", "gold"),
    "erase": ("bronze", "silver", "gold"),
    "maintain": ("bronze", "silver", "gold"),
}
Writes = set[tuple[str, str]]


@rule
def concurrent_tasks(bundle: Bundle) -> Iterator[Finding]:
    """Two tasks of a job that write one table, and neither waits for the other."""
    for key, job in bundle.jobs.items():
        try:
            earlier = before(job["tasks"])
        except CycleError:
            continue
        for one, other in combinations(job["tasks"], 2):
            keys = one["task_key"], other["task_key"]
            ordered = keys[0] in earlier[keys[1]] or keys[1] in earlier[keys[0]]
            if not ordered and _overlap(_writes(one), _writes(other)):
                yield Finding("concurrent_writers", f"jobs.{key}", " and ".join(keys))


@rule
def concurrent_jobs(bundle: Bundle) -> Iterator[Finding]:
    """Two jobs that write one table, and nothing keeps them from running at once."""
    running = {key: job for key, job in bundle.jobs.items() if _can_start(bundle, key)}
    for (one, first), (other, second) in combinations(running.items(), 2):
        if _overlap(_written(first), _written(second)):
            yield Finding("concurrent_writers", f"jobs.{one}", f"jobs.{other} writes it too")


@rule
def broken_chain(bundle: Bundle) -> Iterator[Finding]:
    """A writing task that starts only after another one succeeded: one broken table stops all."""
    for key, job in bundle.jobs.items():
        writing = {task["task_key"] for task in job["tasks"] if _writes(task)}
        for task in job["tasks"]:
            stops = task.get("run_if", "ALL_SUCCESS") in ("ALL_SUCCESS", "NONE_FAILED")
            for name in sorted(writing & set(dependencies(task))) if stops else ():
                place = f"jobs.{key}.{task['task_key']}"
                yield Finding("broken_chain", place, f"a table that fails in {name} stops it")


def command(task: dict[str, Any]) -> str | None:
    """What a wheel task runs: its entry point, or the command of `lakehouse`."""
    wheel = task.get("python_wheel_task", {})
    name: str | None = wheel.get("entry_point")
    return wheel["parameters"][0] if name == "lakehouse" and wheel.get("parameters") else name


def _written(job: dict[str, Any]) -> Writes:
    return set().union(*(_writes(task) for task in job["tasks"]))


def _writes(task: dict[str, Any]) -> Writes:
    """Layer and table of all that a task writes; a command without --table writes every table."""
    arguments = task.get("python_wheel_task", {}).get("parameters", [])
    tables = [text.removeprefix("--table=") for text in arguments if text.startswith("--table=")]
    layers = LAYERS.get(str(command(task)), ())
    return {(layer, table) for layer in layers for table in tables or [EVERY_TABLE]}


def _overlap(one: Writes, other: Writes) -> bool:
    return any(
        layer == other_layer and (table == other_table or EVERY_TABLE in (table, other_table))
        for layer, table in one
        for other_layer, other_table in other
    )


def _can_start(bundle: Bundle, key: str, asked: frozenset[str] = frozenset()) -> bool:
    """Whether a job can start by itself, or asked by one that can; what starts by hand cannot."""
    job = bundle.jobs[key]
    starts = [job[name] for name in ("continuous", "schedule", "trigger") if name in job]
    paused = all(resolved(start.get("pause_status"), bundle.known) == "PAUSED" for start in starts)
    callers = {each for each, of in bundle.jobs.items() if key in find_called(bundle, of)}
    callers -= asked | {key}
    return not paused or any(_can_start(bundle, caller, asked | {key}) for caller in callers)
