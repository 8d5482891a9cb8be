"""Rules about a job's tasks: their graph, what they run on, and what they run."""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError
from pathlib import Path
from typing import Any

from tests.bundle.lint.finding import Finding, Rule
from tests.bundle.lint.graph import dependencies, order
from tests.bundle.lint.reading import Bundle, resolved
from tests.helpers.wheel import PROJECT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGE = re.compile(r"^cdc-lakehouse==|^\.\./dist/\*\.whl$|/cdc_lakehouse-[^/]+\.whl$")
"""The program by its name, or as a wheel."""


def duplicate_task_key(bundle: Bundle) -> Iterator[Finding]:
    for key, job in bundle.jobs.items():
        for task, count in Counter(task["task_key"] for task in job["tasks"]).items():
            if count > 1:
                yield Finding("duplicate_task_key", f"jobs.{key}", f"{count} tasks {task}")


def unknown_dependency(bundle: Bundle) -> Iterator[Finding]:
    for key, job in bundle.jobs.items():
        known = {task["task_key"] for task in job["tasks"]}
        for task in job["tasks"]:
            for missing in sorted(set(dependencies(task)) - known):
                yield Finding("unknown_dependency", f"jobs.{key}.{task['task_key']}", missing)


def circular_dependency(bundle: Bundle) -> Iterator[Finding]:
    for key, job in bundle.jobs.items():
        try:
            order(job["tasks"])
        except CycleError as circle:
            yield Finding("circular_dependency", f"jobs.{key}", " -> ".join(circle.args[1]))


def wrong_outcome(bundle: Bundle) -> Iterator[Finding]:
    """An outcome belongs to a dependency on a condition, and only there."""
    for key, job in bundle.jobs.items():
        conditions = {task["task_key"] for task in job["tasks"] if "condition_task" in task}
        for task in job["tasks"]:
            for dependency in task.get("depends_on", []):
                if ("outcome" in dependency) != (dependency["task_key"] in conditions):
                    place = f"jobs.{key}.{task['task_key']}"
                    yield Finding("wrong_outcome", place, dependency["task_key"])


def undefined_compute(bundle: Bundle) -> Iterator[Finding]:
    """A wheel task names one environment or one job cluster, and the job declares it."""
    for key, job in bundle.jobs.items():
        for task in job["tasks"]:
            for field, declared in (
                ("environment_key", "environments"),
                ("job_cluster_key", "job_clusters"),
            ):
                known = {item[field] for item in job.get(declared, [])}
                if task.get(field) not in known | {None}:
                    place = f"jobs.{key}.{task['task_key']}"
                    yield Finding(f"undefined_{field}", place, task[field])


def missing_wheel(bundle: Bundle) -> Iterator[Finding]:
    for key, job in bundle.jobs.items():
        environments = {
            item["environment_key"]: item["spec"] for item in job.get("environments", [])
        }
        for task in (task for task in job["tasks"] if "python_wheel_task" in task):
            installed = environments.get(task.get("environment_key"), {}).get("dependencies", [])
            installed = installed + [
                library.get("whl", library.get("pypi", {}).get("package", ""))
                for library in task.get("libraries", [])
            ]
            if not any(PACKAGE.search(text) for text in resolved(installed, bundle.known)):
                yield Finding("missing_wheel", f"jobs.{key}.{task['task_key']}", "no cdc-lakehouse")


def missing_entry_point(bundle: Bundle) -> Iterator[Finding]:
    """Databricks looks the entry point up in the metadata of the distribution `package_name`."""
    project = _project(PROJECT)
    for key, job in bundle.jobs.items():
        for task in (task for task in job["tasks"] if "python_wheel_task" in task):
            place, wheel = f"jobs.{key}.{task['task_key']}", task["python_wheel_task"]
            if wheel["package_name"] != project["name"].replace("-", "_"):
                yield Finding("unknown_package", place, wheel["package_name"])
            if wheel["entry_point"] not in project["scripts"]:
                yield Finding("missing_entry_point", place, wheel["entry_point"])


def _project(folder: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return project


RULES: tuple[Rule, ...] = (
    duplicate_task_key,
    unknown_dependency,
    circular_dependency,
    wrong_outcome,
    undefined_compute,
    missing_wheel,
    missing_entry_point,
)
