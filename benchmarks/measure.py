"""Runs competitors in turn, and takes the time."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.result import Line

Parts = Mapping[str, float]
Step = Callable[[], Parts]


class Plan(NamedTuple):
    """How often: rounds that count, after those that warm up; none begins after `seconds`."""

    rounds: int
    warm: int
    seconds: float

    @property
    def most(self) -> int:
        """Rounds in all."""
        return self.rounds + self.warm


class Run(NamedTuple):
    """Seconds of one run, and what it says of its parts."""

    seconds: float
    parts: Parts


def timed(step: Step) -> Run:
    """How long the step takes."""
    began = time.perf_counter()
    parts = step()
    return Run(time.perf_counter() - began, parts)


def in_turn(rounds: Sequence[Mapping[str, Step]], plan: Plan) -> dict[str, list[Run]]:
    """Every competitor once in each round, so that noise falls on all alike.

    Returns the runs that count; a round that would begin after `plan.seconds` is left out.
    """
    taken: dict[str, list[Run]] = {}
    began = time.monotonic()
    for at, steps in enumerate(rounds):
        if at > plan.warm and time.monotonic() - began > plan.seconds:
            break
        for name, step in steps.items():
            run = timed(step)
            shown = "".join(f", {part} {seconds:.2f}" for part, seconds in run.parts.items())
            note = " (warming up)" if at < plan.warm else ""
            print(f"  {name}: {run.seconds:.2f} s{shown}{note}", flush=True)
            if at >= plan.warm:
                taken.setdefault(name, []).append(run)
    return taken


def counted(name: str, runs: Sequence[Run], wrong: int | None = None) -> Line:
    """The runs of one competitor as a line of the result."""
    return Line(name, [round(run.seconds, 3) for run in runs], wrong, parts_of(runs))


def parts_of(runs: Sequence[Run]) -> dict[str, float]:
    """The parts' seconds, averaged over the runs."""
    names = list(dict.fromkeys(name for run in runs for name in run.parts))
    return {n: round(sum(run.parts.get(n, 0) for run in runs) / len(runs), 3) for n in names}
