"""What people do to the dropped files and the YAML of one table; no command is typed."""

import random
from dataclasses import replace

from tests.spark.machine.acts import of_group, own
from tests.spark.machine.group import SHOP
from tests.spark.machine.world import Played, World


@own(10)
def drop(world: World, table: Played, choice: random.Random) -> None:
    """The source sends a file."""
    lines = [] if choice.random() < 0.1 else table.source.send(choice)
    name = table.next_name()
    world.drop(table, name, table.source.render(lines))
    table.model.waiting[name] = lines


@of_group(10)
def send(world: World, choice: random.Random) -> None:
    """The source of the group sends a file, which ends anywhere in a transaction."""
    if world.group is not None:
        name, text = world.group.send(choice)
        world.write(f"landing/{SHOP}/{name}", text)


@own(2)
def overwrite(world: World, table: Played, choice: random.Random) -> None:
    """A dropped file gets another content under its name."""
    model = table.model
    names = [*model.waiting, *model.read, *sorted(model.gone)]
    if not names:
        return
    name, lines = choice.choice(names), table.source.send(choice)
    if choice.random() < 0.2:
        lines = []
    world.drop(table, name, table.source.render(lines))
    of = model.waiting if name in model.waiting else model.changed
    of[name] = lines


@own(1)
def delete_file(world: World, table: Played, choice: random.Random) -> None:
    """A dropped file is deleted, read or not."""
    names = [*table.model.waiting, *table.model.read]
    if names:
        name = choice.choice(names)
        table.model.gone |= {name} & {*table.model.read}
        (world.root / "landing" / table.name / name).unlink(missing_ok=True)
        world.note(f"rm -f landing/{table.name}/{name}")
        for files in (table.model.waiting, table.model.read, table.model.changed):
            files.pop(name, None)


@own(1)
def move_file(world: World, table: Played, choice: random.Random) -> None:
    """A dropped file gets another name: its records come again."""
    model, there = table.model, world.list_landed(table)
    here = [name for name in model.read if name in there and name not in model.changed]
    if here:
        old, new = choice.choice(here), table.next_name()
        folder = f"landing/{table.name}"
        (world.root / folder / old).rename(world.root / folder / new)
        world.note(f"mv {folder}/{old} {folder}/{new}")
        model.waiting[new] = model.read.pop(old)
        model.gone.add(old)


@own(4)
def edit_yaml(world: World, table: Played, choice: random.Random) -> None:
    """Someone edits the table's YAML."""
    conf = table.model.conf
    names = ["history", "rule", "rule", "flag", "declared", "renamed", "published", "present"]
    names += [] if table.source.format == "debezium" else ["where"]
    name = choice.choice(names)
    if name == "renamed" and table.source.renamed:
        return
    table.model.conf = replace(conf, **{name: not getattr(conf, name)})
    world.write_yaml(table)


@own(1)
def rename_at_source(world: World, table: Played, choice: random.Random) -> None:
    """The source follows the YAML and renames the column."""
    table.source.renamed = table.source.renamed or table.model.conf.renamed


@own(2)
def add_column(world: World, table: Played, choice: random.Random) -> None:
    """The source has one more column from now on."""
    table.source.extra = True


@own(1)
def move_clock(world: World, table: Played, choice: random.Random) -> None:
    """Files come from a machine with another clock."""
    table.days = choice.choice([-400, -1, 0, 1, 400])
