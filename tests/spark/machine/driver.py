"""Sequences of acts by a seed, and the shortest one that still shows a fault."""

import random
import shutil
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.spark.machine import checks
from tests.spark.machine.acts import ACTS
from tests.spark.machine.checks import Fault
from tests.spark.machine.model import Conf, Model
from tests.spark.machine.source import FORMATS, Source
from tests.spark.machine.world import World

LENGTH = 12


class Step(NamedTuple):
    """An act, and the number that its choices come from."""

    act: str
    seed: int


@dataclass
class Found:
    """A fault, and the acts that show it."""

    seed: int
    law: str
    told: str
    steps: Sequence[Step]
    script: Sequence[str]

    def __str__(self) -> str:
        acts = ", ".join(step.act for step in self.steps)
        script = "\n".join(self.script)
        return f"sequence {self.seed}: {self.law}\n{self.told}\nacts: {acts}\n{script}"


def draw(seed: int, length: int = LENGTH) -> list[Step]:
    """The steps of a sequence; the first two are such that there is something in the lake."""
    choice = random.Random(seed)
    names = list(ACTS)
    often = [ACTS[name][0] for name in names]
    drawn = ["drop", "run", *choice.choices(names, often, k=length - 2)]
    return [Step(name, choice.randrange(1 << 30)) for name in drawn]


def draw_conf(seed: int, source: Source) -> Conf:
    """The YAML that a sequence begins with."""
    choice = random.Random(seed)
    names = ["rule", "flag", "published", *([] if source.format == "debezium" else ["where"])]
    chosen = {name: choice.random() < 0.25 for name in names}
    return Conf(history=choice.random() < 0.7, **chosen)


def play(
    seed: int, steps: Sequence[Step], folder: Path, tell: Callable[[World], object] = id
) -> Found | None:
    """Does the steps in an empty lake, and checks it after each; returns the first fault."""
    root = folder / f"m{seed}"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    source = Source(FORMATS[seed % len(FORMATS)])
    world = World(root, source, Model(draw_conf(seed, source)))
    try:
        world.begin()
        for step in steps:
            world.note(f"# {step.act}")
            before = len(world.script)
            ACTS[step.act][1](world, random.Random(step.seed))
            if any(line.startswith("lakehouse") for line in world.script[before:]):
                checks.check_lake(world)
                checks.check_status(world)
        checks.check_refusal(world)
        if world.model.conf != world.model.view:
            ACTS["run"][1](world, random.Random(seed))
        checks.check_lake(world, at_times=True)
        checks.check_laws(world)
    except Fault as fault:
        return Found(seed, fault.law, str(fault), steps, world.script)
    except Exception as failure:
        return Found(seed, type(failure).__name__, traceback.format_exc(), steps, world.script)
    finally:
        tell(world)
        shutil.rmtree(world.root, ignore_errors=True)
    return None


def shorten(found: Found, folder: Path, seconds: float) -> Found:
    """Leaves out steps as long as the same law is broken, for so many seconds at most."""
    until, at = time.monotonic() + seconds, len(found.steps) - 1
    while at > 0 and time.monotonic() < until:
        steps = [step for number, step in enumerate(found.steps) if number != at]
        again = play(found.seed, steps, folder)
        if again is not None and again.law == found.law:
            found = again
        at = min(at, len(found.steps)) - 1
    return found
