"""Commands that mend, rebuild, erase, tend and show; each ends well, also when it was killed."""

import json
import random
import shutil
import sqlite3
from contextlib import closing

from tests.spark.machine.acts import of_group, own, shared
from tests.spark.machine.checks import Fault, check_words, hold, read_plainly
from tests.spark.machine.group import MEMBERS
from tests.spark.machine.kills import killed_before
from tests.spark.machine.runs import run
from tests.spark.machine.source import KEYS
from tests.spark.machine.world import KILLED, Answer, Played, World

WHY = "known"


def do_well(world: World, law: str, *words: str) -> Answer:
    """Types a command that must end well."""
    answer = world.type(*words)
    check_words(answer)
    hold(law, answer.code == 0, answer)
    return answer


@own(1)
def rebuild(world: World, table: Played, choice: random.Random) -> None:
    """The table is built anew from bronze."""
    if table.model.built is not None and table.model.conf.present:
        do_well(world, "a rebuild ends well", "rebuild", table.name)
        table.model.rebuild()


@of_group(1)
def rebuild_member(world: World, choice: random.Random) -> None:
    """A table of the group is built anew: the group shows what it showed."""
    if world.group is not None and world.group.shown:
        do_well(world, "a rebuild ends well", "rebuild", choice.choice(sorted(MEMBERS)))


@own(2)
def mend(world: World, table: Played, choice: random.Random) -> None:
    """A dead letter is mended by hand; it stays before the snapshots that came after it."""
    source, dead = table.source, table.model.dead
    broken = [one for one in dead if one.sent.event is None and not one.acknowledged]
    cannot = source.format == "csv" or source.snapshots
    if not broken or cannot or not table.model.is_at_rest:
        return
    one, good = choice.choice(broken), source.change(choice)
    every = ("dead-letters", "list", "--table", table.name, "--format", "json")
    listed = do_well(world, "dead letters are listed", *every)
    letters = [json.loads(line) for line in listed.out.splitlines()]
    places = [letter["position"] for letter in letters if letter["raw"] == one.sent.text]
    hold("every dead letter is listed", bool(places), listed)
    file = world.root / "mended.json"
    world.write(file.name, good.text)
    words = ("dead-letters", "edit", places[0], "--file", str(file))
    do_well(world, "a mended letter is taken", *words)
    table.model.mend(one, good)


@own(1)
def erase(world: World, table: Played, choice: random.Random) -> None:
    """A person's key goes from every layer."""
    model, key = table.model, choice.randrange(KEYS)
    if not model.is_at_rest or model.changed:
        return
    words = ("erase", table.name, "--key", str(key), "--landing")
    do_well(world, "an erasure ends well", *words)
    model.erase(key)
    for name, lines in list(model.read.items()):
        if any(line.key == key for line in lines):
            del model.read[name]


@own(1)
def export(world: World, table: Played, choice: random.Random) -> None:
    """Someone takes gold's rows with them."""
    if table.model.is_at_rest:
        kind, to = choice.choice(["delta", "parquet"]), world.root / "taken"
        words = ("export", table.name, str(to), "--format", kind)
        do_well(world, "an export ends well", *words)
        rows = read_plainly(to, kind)
        shutil.rmtree(to)
        hold("an export is the oracle's", rows == table.model.current(), rows)


@own(4)
def rebootstrap(world: World, table: Played, choice: random.Random) -> None:
    """After changes were lost a new snapshot is asked for by a signal, and its rows come."""
    if not table.model.conf.present:
        return
    database, wanted = world.root / "source.db", f"public.{table.name}"
    with closing(sqlite3.connect(database)) as source:
        source.execute("CREATE TABLE IF NOT EXISTS signals (id, type, data)")
    words = ("--source", f"sqlite:///{database}", "--signals", "signals", "--collection", wanted)
    answer = world.type("rebootstrap", table.name, *words)
    check_words(answer)
    if table.source.format != "debezium":
        hold("only a connector is asked for a snapshot", answer.code == 2, answer)
        return
    hold("a snapshot is asked for", answer.code == 0, answer)
    with closing(sqlite3.connect(database)) as source:
        *_, (data,) = source.execute("SELECT data FROM signals").fetchall()
    hold("a signal names the table", json.loads(data)["data-collections"] == [wanted], data)
    table.source.lose(choice)
    if any(row["qty"] >= 0 for row in table.source.live.values()):
        name, lines = table.next_name(), table.source.snapshot()
        world.drop(table, name, table.source.render(lines))
        table.model.waiting[name] = lines
        run(world, choice)


@shared(2)
def replay(world: World, choice: random.Random) -> None:
    """Dead letters are tried again."""
    tables = world.at_rest
    if tables:
        do_well(world, "a replay ends well", "dead-letters", "replay", *_name(tables))
        for table in tables:
            table.model.replay()


@shared(1)
def acknowledge(world: World, choice: random.Random) -> None:
    """Dead letters are known, and ring no more."""
    tables = [table for table in world.at_rest if table.model.dead]
    if tables:
        words = ("dead-letters", "acknowledge", WHY, *_name(tables))
        do_well(world, "an acknowledgement ends well", *words)
        for one in (one for table in tables for one in table.model.dead):
            one.acknowledged = True


def _name(tables: list[Played]) -> list[str]:
    return [word for table in tables for word in ("--table", table.name)]


@shared(1)
def maintain(world: World, choice: random.Random) -> None:
    """The nightly upkeep, at times with the landing folder."""
    run(world, choice)
    if world.at_rest:
        clean = ["--landing"] if choice.random() < 0.5 else []
        do_well(world, "upkeep ends well", "maintain", *clean)


@own(1)
def kill_upkeep(world: World, table: Played, choice: random.Random) -> None:
    """Upkeep is killed before one of its writes, and is ended when it is repeated."""
    if not table.model.is_at_rest or table.model.changed:
        return
    command, number = choice.choice([rebuild, rebuild, erase]), choice.randint(1, 40)
    seed = choice.randrange(1 << 30)
    try:
        with killed_before(number):
            command(world, table, random.Random(seed))
    except Fault:
        if world.answer.code != KILLED:
            raise
    world.note(f"# killed before its write {number}")
    command(world, table, random.Random(seed))


@shared(1)
def kill_maintain(world: World, choice: random.Random) -> None:
    """The nightly upkeep is killed before one of its writes, and is ended by the next."""
    run(world, choice)
    if world.at_rest:
        number = choice.randint(1, choice.choice([12, 60]))
        with killed_before(number):
            answer = world.type("maintain")
        world.note(f"# killed before its write {number}")
        hold("killed upkeep says no more", answer.code in (0, 1, KILLED), answer)
        do_well(world, "upkeep ends well", "maintain")


@shared(1)
def upgrade(world: World, choice: random.Random) -> None:
    """The project becomes a bundle, in which this version has nothing to change."""
    if world.has_tables:
        made = ("init", str(world.root), "--bundle", "--index")
        do_well(world, "a project becomes a bundle", *made)
        done = do_well(world, "an upgrade ends well", "upgrade")
        hold("an upgrade has nothing to do", done.out.startswith("nothing to change"), done)
