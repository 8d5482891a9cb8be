"""What the bundle's lint says, and how its rules are written down.

A rule is a function that yields what is wrong, as texts. `rule` takes the whole bundle and yields
findings; `of_resources`, `of_tasks` and `of_environments` are asked of each, and yield texts, or
pairs of another rule's name and a text.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from tests.bundle.lint.reading import Bundle


class Finding(NamedTuple):
    """One fault: the rule's name, the resource (and task) it is in, and what is wrong."""

    rule: str
    place: str
    message: str


Fields: TypeAlias = dict[str, Any]
Rule: TypeAlias = Callable[[Bundle], Iterator[Finding]]
Faults: TypeAlias = Iterator[str | tuple[str, str]]
Units: TypeAlias = Callable[[Bundle], Iterator[tuple[str, Fields, Fields]]]
RULES: list[Rule] = []


def rule(function: Rule) -> Rule:
    """Registers a rule about a whole bundle."""
    RULES.append(function)
    return function


def of_resources(
    *kinds: str, mode: str | None = None
) -> Callable[[Callable[[Bundle, Fields], Faults]], Rule]:
    """Registers a rule about each resource of some kinds, in targets of a mode or in all."""

    def list_units(bundle: Bundle) -> Iterator[tuple[str, Fields, Fields]]:
        for kind in kinds if mode in (None, bundle.mode) else ():
            for key, resource in bundle.resources.get(kind, {}).items():
                yield f"{kind}.{key}", resource, resource

    return lambda function: _register(function.__name__, list_units, lambda b, r, _: function(b, r))


def of_tasks(function: Callable[[Bundle, Fields, Fields], Faults]) -> Rule:
    """Registers a rule about each task of each job; it gets both."""

    def list_units(bundle: Bundle) -> Iterator[tuple[str, Fields, Fields]]:
        for key, job in bundle.jobs.items():
            yield from ((f"jobs.{key}.{task['task_key']}", job, task) for task in job["tasks"])

    return _register(function.__name__, list_units, function)


def of_environments(function: Callable[[Bundle, Fields], Faults]) -> Rule:
    """Registers a rule about each environment of each job."""

    def list_units(bundle: Bundle) -> Iterator[tuple[str, Fields, Fields]]:
        for key, job in bundle.jobs.items():
            for of in job.get("environments", []):
                yield f"jobs.{key}.{of['environment_key']}", job, of["spec"]

    return _register(function.__name__, list_units, lambda b, _, spec: function(b, spec))


def _register(
    name: str, list_units: Units, function: Callable[[Bundle, Fields, Fields], Faults]
) -> Rule:
    def look(bundle: Bundle) -> Iterator[Finding]:
        for place, one, other in list_units(bundle):
            for fault in function(bundle, one, other):
                named, text = (name, fault) if isinstance(fault, str) else fault
                yield Finding(named, place, text)

    return rule(look)
