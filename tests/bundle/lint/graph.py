"""Jobs and tasks as a graph: what must come before what, and what asks for what."""

from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from typing import Any

from tests.bundle.lint.reading import Bundle, resolved

Task = dict[str, Any]


def order(tasks: Sequence[Task]) -> list[Task]:
    """The tasks so that each follows all it depends on; equals stay in the order of the file.

    Raises:
        graphlib.CycleError: they depend on one another in a circle.
    """
    by_key = {task["task_key"]: task for task in tasks}
    graph = {
        key: [name for name in dependencies(task) if name in by_key] for key, task in by_key.items()
    }
    return [by_key[key] for key in TopologicalSorter(graph).static_order()]


def dependencies(task: Task) -> list[str]:
    """Keys of the tasks that a task names in depends_on."""
    return [dependency["task_key"] for dependency in task.get("depends_on", [])]


def before(tasks: Sequence[Task]) -> dict[str, set[str]]:
    """For each task everything that has ended, or was left out, when it starts."""
    earlier: dict[str, set[str]] = {}
    for task in order(tasks):
        direct = dependencies(task)
        earlier[task["task_key"]] = set(direct).union(*(earlier.get(key, set()) for key in direct))
    return earlier


def find_called(bundle: Bundle, job: Task) -> Iterator[str]:
    """Keys of the jobs that a job's tasks ask for, those that the bundle declares."""
    ids = {bundle.known[f"resources.jobs.{key}.id"]: key for key in bundle.jobs}
    for task in job["tasks"]:
        called = resolved(task.get("run_job_task", {}).get("job_id", ""), bundle.known)
        if called in ids:
            yield ids[called]
