"""Runs a job of the bundle in this process: its YAML's tasks in order, entry points as functions.

What Databricks does with depends_on, outcomes, run_if, conditions, job parameters and run_job_task
is done here too; retries, timeouts and parallel tasks are not: one task runs after the other.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from tests.bundle.lint.graph import Task, order
from tests.bundle.lint.reading import Bundle, Value, resolved
from tests.bundle.lint.references import PARAMETER

Program = Callable[[list[str]], int]
DONE, FAILED, EXCLUDED = "done", "failed", "excluded"
COMPARISONS: dict[str, Callable[[str, str], bool]] = {
    "EQUAL_TO": lambda left, right: left == right,
    "NOT_EQUAL": lambda left, right: left != right,
}
# Whether a task starts, by the states that those it depends on have ended in.
RUN_IF: dict[str, Callable[[set[str]], bool]] = {
    "ALL_SUCCESS": lambda ended: not ended & {FAILED, EXCLUDED},
    "AT_LEAST_ONE_SUCCESS": lambda ended: bool(ended - {FAILED, EXCLUDED}),
    "NONE_FAILED": lambda ended: FAILED not in ended and ended != {EXCLUDED},
    "ALL_DONE": lambda ended: True,
    "AT_LEAST_ONE_FAILED": lambda ended: FAILED in ended,
    "ALL_FAILED": lambda ended: ended == {FAILED},
}


class Step(NamedTuple):
    """A task that had its turn: done, failed or excluded, or a condition's true or false."""

    job: str
    task: str
    state: str


def run(
    bundle: Bundle,
    job: str,
    programs: Mapping[str, Program],
    given: Mapping[str, str] | None = None,
) -> list[Step]:
    """Run one job to its end.

    Args:
        bundle: the bundle.
        job: the job's key.
        programs: the wheel's entry points by name: arguments in, exit code out.
        given: what takes the place of the job's parameters' defaults.
    """
    return list(_run(bundle, job, programs, given or {}))


def _run(
    bundle: Bundle, job: str, programs: Mapping[str, Program], given: Mapping[str, str]
) -> Iterator[Step]:
    settings = resolved(bundle.jobs[job], bundle.known)
    parameters = {item["name"]: item["default"] for item in settings.get("parameters", [])}
    unknown = set(given) - set(parameters)
    if unknown:
        raise KeyError(f"{job} has no parameter {', '.join(sorted(unknown))}")
    states: dict[str, str] = {}
    for task in order(settings["tasks"]):
        started = _starts(task, states)
        task = _with_parameters(task, {**parameters, **given})
        called = list(_called(bundle, task, programs)) if started else []
        yield from called
        states[task["task_key"]] = _state(task, programs, called) if started else EXCLUDED
        yield Step(job, task["task_key"], states[task["task_key"]])


def _starts(task: Task, states: Mapping[str, str]) -> bool:
    """Whether depends_on and run_if let a task start; a condition's other outcome excludes it."""
    wanted = {item["task_key"]: item.get("outcome") for item in task.get("depends_on", [])}
    ended = [
        EXCLUDED if outcome and states[key] not in (outcome, FAILED) else states[key]
        for key, outcome in wanted.items()
    ]
    return RUN_IF[task.get("run_if", "ALL_SUCCESS")](set(ended))


def _with_parameters(value: Value, parameters: Mapping[str, str]) -> Value:
    """The task with every `{{job.parameters.x}}` replaced."""
    if isinstance(value, dict):
        return {key: _with_parameters(inner, parameters) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_parameters(inner, parameters) for inner in value]
    if isinstance(value, str):
        return PARAMETER.sub(lambda found: parameters[found[1]], value)
    return value


def _called(bundle: Bundle, task: Task, programs: Mapping[str, Program]) -> Iterator[Step]:
    """The steps of the job that a run_job_task starts."""
    if "run_job_task" in task:
        call = task["run_job_task"]
        job = call["job_id"].removeprefix("id of jobs.")
        yield from _run(bundle, job, programs, call.get("job_parameters", {}))


def _state(task: Task, programs: Mapping[str, Program], called: list[Step]) -> str:
    if "condition_task" in task:
        condition = task["condition_task"]
        holds = COMPARISONS[condition["op"]](condition["left"], condition["right"])
        return str(holds).lower()
    if "run_job_task" in task:
        return FAILED if FAILED in {step.state for step in called} else DONE
    wheel = task["python_wheel_task"]
    return FAILED if programs[wheel["entry_point"]](list(wheel["parameters"])) else DONE
