"""What changes around a lake: its path, the time zone, the working folder, the days that pass."""

import random

from pyspark.sql import SparkSession

from tests.helpers.ages import age
from tests.spark.machine.acts import shared
from tests.spark.machine.world import World


@shared(1)
def move_lake(world: World, choice: random.Random) -> None:
    """The project's folder gets another path: every file in it is a new one to bronze."""
    new = world.root.with_name(f"{world.root.name}x")
    world.root.rename(new)
    world.note(f"cd ..; mv {world.root.name} {new.name}; cd {new.name}")
    world.root = new
    for table in world.tables:
        here, model = world.list_landed(table), table.model
        known = {**model.read, **model.changed}
        again = {name: lines for name, lines in known.items() if name in here}
        model.waiting, model.read, model.changed = again | model.waiting, {}, {}
        model.gone.clear()


@shared(1)
def travel(world: World, choice: random.Random) -> None:
    """The machine is set to another time zone."""
    world.zone = choice.choice(["America/New_York", "Asia/Kathmandu", "UTC"])
    world.note(f"export TZ={world.zone}")


@shared(1)
def go_elsewhere(world: World, choice: random.Random) -> None:
    """Commands are typed in another folder, with --conf and --root."""
    world.elsewhere = not world.elsewhere


@shared(2)
def grow_old(world: World, choice: random.Random) -> None:
    """Nobody looks at the lake for days: its commits and files are that much older."""
    days, lake = choice.choice([3, 9, 40]), world.root / "lake"
    if lake.is_dir():
        age(SparkSession.builder.getOrCreate(), lake, days)
        world.note(f"# the lake is {days} days older: tests.helpers.ages.age")
