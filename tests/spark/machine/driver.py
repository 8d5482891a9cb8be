"""Sequences of acts by a seed, and the shortest one that still shows a fault.

Several tables share a lake. Each has a sequence of acts of its own; some acts, such as a run, are
one act of all of them.
"""

import random
import shutil
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from tests.spark.machine import checks, files, runs, surroundings, upkeep
from tests.spark.machine.acts import OF_GROUP, OWN, SHARED
from tests.spark.machine.checks import Fault
from tests.spark.machine.group import SHOP, Group
from tests.spark.machine.model import Conf, Model
from tests.spark.machine.source import FORMATS, Source
from tests.spark.machine.world import Played, World

ACTS = (files, runs, surroundings, upkeep)
"""The modules whose import registers acts."""
LENGTH, TABLES, GROUPED = 12, 6, 3
"""Acts of a sequence; tables of a lake; each third lake has a consistency group beside them."""
OFTEN_RUN = 0.25
_OF_ALL = "all tables"


class Step(NamedTuple):
    """An act at a time, its table (empty: all), and the number that its choices come from."""

    at: int
    table: str
    act: str
    seed: int


@dataclass
class Found:
    """A fault, its table where it is one's, and the acts that show it."""

    seed: int
    law: str
    of: str
    told: str
    steps: Sequence[Step]
    script: Sequence[str]

    def __str__(self) -> str:
        acts = ", ".join(f"{step.table or _OF_ALL} {step.act}" for step in self.steps)
        script = "\n".join(self.script)
        return f"lake {self.seed}: {self.law}\n{self.told}\nacts: {acts}\n{script}"


def draw(seed: int, tables: int = TABLES, length: int = LENGTH) -> list[Step]:
    """The steps of a lake's sequences; at the first two times something comes into the lake."""
    choice, steps = random.Random(seed), list[Step]()
    names = [f"t{number}" for number in range(tables)] + [SHOP] * (seed % GROUPED == 0)
    of_all, of_one = (sum(often for often, _ in acts.values()) for acts in (SHARED, OWN))
    for at in range(length):
        if at == 1 or (at > 1 and choice.random() < of_all / (of_all + of_one)):
            act = "run" if at == 1 else _pick(choice, SHARED)
            steps.append(Step(at, "", act, choice.randrange(1 << 30)))
            continue
        for name in names:
            acts = OF_GROUP if name == SHOP else OWN
            act = _pick(choice, acts) if at else "send" if name == SHOP else "drop"
            steps.append(Step(at, name, act, choice.randrange(1 << 30)))
        if at and choice.random() < OFTEN_RUN:
            steps.append(Step(at, "", "run", choice.randrange(1 << 30)))
    return steps


def _pick(choice: random.Random, acts: Mapping[str, tuple[int, object]]) -> str:
    return choice.choices(list(acts), [often for often, _ in acts.values()])[0]


def _make_table(seed: int, name: str) -> Played:
    """A table and the YAML that it begins with."""
    source = Source(FORMATS[(seed + int(name[1:])) % len(FORMATS)], name)
    choice = random.Random(f"{seed} {name}")
    names = ["rule", "flag", "published", *([] if source.format == "debezium" else ["where"])]
    chosen = {each: choice.random() < 0.25 for each in names}
    return Played(name, source, Model(Conf(history=choice.random() < 0.7, **chosen)))


def play(
    seed: int, steps: Sequence[Step], folder: Path, tell: Callable[[World], object] = id
) -> Found | None:
    """Does the steps in an empty lake, and checks it after each time; returns the first fault."""
    root = folder / f"m{seed}"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    names = {step.table for step in steps}
    tables = [_make_table(seed, name) for name in sorted(names - {"", SHOP})]
    group = Group(history=seed % 2 == 0) if SHOP in names else None
    world, done = World(root, tables, group), list[Step]()
    try:
        world.begin()
        for _, some in groupby(steps, key=lambda step: step.at):
            now = [*some]
            done += now
            _play_time(world, now)
        _end(world, seed)
    except Fault as fault:
        return Found(seed, fault.law, fault.of, str(fault), done, world.script)
    except Exception as failure:
        told = traceback.format_exc()
        return Found(seed, type(failure).__name__, "", told, done, world.script)
    finally:
        tell(world)
        shutil.rmtree(world.root, ignore_errors=True)
    return None


def _play_time(world: World, steps: Sequence[Step]) -> None:
    """Does what is done at one time, and checks the lake if a command was typed."""
    tables = {table.name: table for table in world.tables}
    before = len(world.script)
    for step in steps:
        world.note(f"# {step.table or _OF_ALL}: {step.act}")
        choice = random.Random(step.seed)
        try:
            if step.table in tables:
                OWN[step.act][1](world, tables[step.table], choice)
            else:
                (OF_GROUP if step.table else SHARED)[step.act][1](world, choice)
        except Fault as fault:
            fault.of = fault.of or step.table
            raise
    if any(line.startswith("lakehouse") for line in world.script[before:]):
        checks.check_lake(world)
        checks.check_status(world)


def _end(world: World, seed: int) -> None:
    """What is checked once."""
    checks.check_refusal(world)
    if any(table.model.conf != table.model.view for table in world.tables):
        runs.run(world, random.Random(seed))
    checks.check_lake(world, at_times=True)
    checks.check_laws(world)


def shorten(found: Found, folder: Path, seconds: float) -> Found:
    """Leaves out tables, then steps, as long as the same law is broken, for so many seconds."""
    until = time.monotonic() + seconds

    def leave(steps: Sequence[Step]) -> bool:
        nonlocal found
        again = play(found.seed, steps, folder) if time.monotonic() < until else None
        if again is None or again.law != found.law:
            return False
        found = again
        return True

    if found.of:
        leave([step for step in found.steps if step.table in ("", found.of)])
    for table in sorted({step.table for step in found.steps} - {""}):
        leave([step for step in found.steps if step.table != table])
    at = len(found.steps) - 1
    while at > 0 and time.monotonic() < until:
        leave([step for number, step in enumerate(found.steps) if number != at])
        at = min(at, len(found.steps)) - 1
    return found
