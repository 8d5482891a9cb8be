"""Runs competitors in turn, and takes the time."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

Parts = Mapping[str, float]
Step = Callable[[], Parts]


class Run(NamedTuple):
    """Seconds of one run, and what it says of its parts."""

    seconds: float
    parts: Parts


def timed(step: Step) -> Run:
    """How long the step takes."""
    began = time.perf_counter()
    parts = step()
    return Run(time.perf_counter() - began, parts)


def in_turn(rounds: Sequence[Mapping[str, Step]], warm: int) -> dict[str, list[Run]]:
    """Every competitor once in each round, so that noise falls on all alike.

    The first rounds, as many as `warm`, warm up and are not counted.
    """
    taken: dict[str, list[Run]] = {}
    for at, steps in enumerate(rounds):
        for name, step in steps.items():
            run = timed(step)
            shown = "".join(f", {part} {seconds:.2f}" for part, seconds in run.parts.items())
            print(
                f"  {name}: {run.seconds:.2f} s{shown}{' (warming up)' * (at < warm)}", flush=True
            )
            if at >= warm:
                taken.setdefault(name, []).append(run)
    return taken


def parts_of(runs: Sequence[Run]) -> dict[str, float]:
    """The parts' seconds, averaged over the runs."""
    names = list(dict.fromkeys(name for run in runs for name in run.parts))
    return {n: round(sum(run.parts.get(n, 0) for run in runs) / len(runs), 3) for n in names}
