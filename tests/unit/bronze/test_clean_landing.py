"""Landing files that every reader has in bronze go after a time, and no other file does."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from bronze.feed_state import Note, read_state
from bronze.feeds import list_feeds
from bronze.files.cleaning import clean_files, held_files
from bronze.files.listing import list_here
from cdc_lakehouse.cli.work.maintain import Upkeep, tend_bronze
from lakehouse.config.loading import load_target
from lakehouse.config.table import Table
from lakehouse.config.target import CleanLanding, Target
from lakehouse.config.unpacking import unpack_target
from lakehouse.errors import LakehouseError
from lakehouse.storage.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = 1_800_000_000
CLEAN = CleanLanding(after="30 days")


def table(name: str, path: str, format: str = "debezium") -> Table:
    source = {"format": format, "path": path}
    return Table.model_validate({"table": name, "keys": ["id"], "source": source})


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(root=str(tmp_path))


def drop(target: Target, name: str, days: float) -> Path:
    file = Path(target.landing, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(name)
    os.utime(file, (NOW - days * 86_400,) * 2)
    return file


def read_all(target: Target, *tables: Table) -> None:
    """Bronze has taken what lies in the folders of the tables."""
    for feed in list_feeds(tables):
        files = list_here(target, f"{target.landing}/{feed.path}", lambda _: False)
        taken = {file.path: (file.length, file.changed) for file in files}
        read_state(target, feed).add_note(Note(1, files=taken))


def going(target: Target, *tables: Table) -> list[str]:
    return [file.here.name for file in held_files(target, tables, CLEAN, NOW)]


def test_only_what_bronze_holds_for_long_goes(target: Target) -> None:
    orders = table("orders", "shop")
    for name, days in (("b", 31), ("sub/a", 40), ("young", 29), ("overwritten", 50)):
        drop(target, f"shop/{name}", days)
    read_all(target, orders)
    drop(target, "shop/overwritten", 45).write_text("another text")
    drop(target, "shop/unread", 90)
    drop(target, "other/unread", 90)
    drop(target, "shop/.hidden", 90)
    assert going(target, orders) == ["a", "b"]


def test_a_file_that_another_table_has_not_read_stays(target: Target) -> None:
    orders, parts, folder = table("orders", "shop"), table("parts", "shop/parts"), "shop/parts"
    drop(target, "shop/mine", 60)
    drop(target, f"{folder}/both", 60)
    read_all(target, orders)
    assert going(target, orders, parts) == ["mine"]
    read_all(target, parts)
    assert going(target, orders, parts) == ["mine", "both"]


def test_what_a_killed_run_may_have_read_stays(target: Target) -> None:
    """Its note tells the name only: whether the file was changed since is not known."""
    orders = table("orders", "shop")
    file = drop(target, "shop/a", 60)
    (feed,) = list_feeds([orders])
    read_state(target, feed).add_note(Note(1, files={f"file:{file}": (-1, -1)}))
    assert going(target, orders) == []


def test_files_are_deleted_or_moved_with_their_folders(target: Target, tmp_path: Path) -> None:
    orders = table("orders", "shop")
    gone, moved = drop(target, "shop/gone", 60), drop(target, "shop/day=1/moved", 50)
    again = drop(target, "shop/again", 40)
    read_all(target, orders)
    first, second, third = held_files(target, [orders], CLEAN, NOW)
    archive = tmp_path / "archive"
    (archive / "shop").mkdir(parents=True)
    (archive / "shop" / "again").write_text("of another time")
    assert clean_files(target, [first], None) == 1
    assert clean_files(target, [second, third], str(archive)) == 1
    assert not gone.exists() and not moved.exists() and again.exists()
    assert (archive / "shop" / "day=1" / "moved").read_text() == "shop/day=1/moved"
    assert (archive / "shop" / "again").read_text() == "of another time"


def test_a_url_is_left_alone(target: Target) -> None:
    assert going(target.model_copy(update={"landing": "hdfs://b/x"}), table("t", "shop")) == []


@pytest.mark.parametrize(
    ("clean", "said"),
    [
        ({"after": "soon"}, "clean_landing.after"),
        ({"move_to": "/a"}, "clean_landing.after"),
        ({"after": "1 day", "move_to": "{root}/landing/old"}, "a folder outside of landing"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, clean: dict[str, str], said: str) -> None:
    given = {key: text.format(root=tmp_path) for key, text in clean.items()}
    with pytest.raises(LakehouseError, match=said):
        unpack_target({"root": str(tmp_path), "clean_landing": given}, "local.yml", "local")


def test_another_root_cleans_nothing(tmp_path: Path) -> None:
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "local.yml").write_text("root: .\nclean_landing: {after: 1 day}\n")
    assert load_target(tmp_path, "local").clean_landing is not None
    assert load_target(tmp_path, "local", str(tmp_path)).clean_landing is None


def test_maintain_tells_what_goes_and_a_dry_run_only_tells(target: Target, tmp_path: Path) -> None:
    """Of a lake without bronze's tables, so that no Spark is asked."""
    orders, told = table("orders", "shop"), list[str]()
    file = drop(target, "shop/a", 2000)
    read_all(target, orders)
    cleaning = target.model_copy(update={"clean_landing": CLEAN})
    work = Upkeep(Lake(cast("SparkSession", None), cleaning), "r", True, told.append)
    assert tend_bronze(work, {}, [orders]) == {"landing_files_cleaned": 1}
    assert told == ["landing: 1 file of bronze, older than 30 days, would be deleted"]
    assert file.exists()
    moving = CLEAN.model_copy(update={"move_to": str(tmp_path / "old")})
    cleaning = target.model_copy(update={"clean_landing": moving})
    work = work._replace(lake=Lake(work.lake.spark, cleaning), dry_run=False)
    assert tend_bronze(work, {}, [orders]) == {"landing_files_cleaned": 1}
    assert told[1].endswith(f"are moved to {tmp_path / 'old'}")
    assert not file.exists() and (tmp_path / "old" / "shop" / "a").is_file()
    assert tend_bronze(work._replace(lake=Lake(work.lake.spark, target)), {}, [orders]) == {}
