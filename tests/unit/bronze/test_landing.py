import re
from pathlib import Path

import pytest

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError
from lakehouse.storage.landing import from_landing, land_snapshot, rename_landed

DAY = "2019-06-18"


def table(format: str = "snapshot") -> Table:
    source = {"format": format, "path": "s/t"} | ({"mode": "full"} if format == "snapshot" else {})
    return Table.model_validate({"table": "t", "source": source, "keys": ["id"]})


def extract(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def names(target: Target) -> list[str]:
    return sorted(file.name[13:] for file in Path(target.landing, "s/t", DAY).iterdir())


def test_the_files_of_a_day_lie_below_the_tables_folder(tmp_path: Path) -> None:
    target = Target(root=str(tmp_path / "lake"))
    files = {"a.csv": "1", "b.csv": "2", ".c.csv": "3", "_d.csv": "4", "e.tmp": "5"}
    landed = land_snapshot(target, [table()], extract(tmp_path / "x", **files), DAY)
    assert len(landed) == 2
    assert names(target) == ["a.csv", "b.csv"]
    assert [entry.name for entry in Path(target.landing, "s/t").iterdir()] == [DAY]


def test_landing_a_day_again_adds_only_what_is_new(tmp_path: Path) -> None:
    target = Target(root=str(tmp_path / "lake"))
    folder = extract(tmp_path / "x", **{"a.csv": "1"})
    land_snapshot(target, [table()], folder, DAY)
    assert land_snapshot(target, [table()], folder, DAY) == []
    extract(folder, **{"a.csv": "2", "b.csv": "2"})
    assert len(land_snapshot(target, [table()], folder, DAY)) == 2
    assert names(target) == ["a.csv", "a.csv", "b.csv"]


@pytest.mark.parametrize(
    ("tables", "folder", "day", "named"),
    [
        ([table("rows")], "x", DAY, "--table"),
        ([table(), table()], "x", DAY, "--table"),
        ([table()], "nowhere", DAY, "--extract"),
        ([table()], "empty", DAY, "--extract"),
        ([table()], "x", "2019-02-30", "--effective-date"),
        ([table()], "x", "20190618", "--effective-date"),
        ([table()], "x", "1969-12-31", "--effective-date"),
    ],
)
def test_what_cannot_be_landed_is_wrong_usage(
    tmp_path: Path, tables: list[Table], folder: str, day: str, named: str
) -> None:
    extract(tmp_path / "x", **{"a.csv": "1"})
    extract(tmp_path / "empty", **{".a.csv": "1"})
    with pytest.raises(ConfigurationError) as wrong:
        land_snapshot(Target(root=str(tmp_path / "lake")), tables, tmp_path / folder, day)
    assert wrong.value.key == named


def test_a_person_is_told_of_files_from_the_landing_root_on(tmp_path: Path) -> None:
    target = Target(root=str(tmp_path))
    told = f"by file:{tmp_path}/landing/shop/1.jsonl:4"
    assert from_landing(told, target) == "by shop/1.jsonl:4"
    assert from_landing("by shop.public.orders/7", target) == "by shop.public.orders/7"
    assert from_landing(None, target) is None


def test_a_landing_root_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    target = Target(catalog="c", kind="databricks", landing="s3://b/l", checkpoints="s3://b/c")
    with pytest.raises(ConfigurationError, match="by other means"):
        land_snapshot(target, [table()], extract(tmp_path / "x", **{"a.csv": "1"}), DAY)


def test_a_file_that_is_to_be_read_again_gets_a_name_that_was_never_read(tmp_path: Path) -> None:
    target = Target(root=str(tmp_path / "lake"))
    folder, given = Path(target.landing, "s"), set[str]()
    for day in ("Mon", "Tue"):
        file = rename_landed(target, extract(folder, **{"a.csv": day}) / "a.csv")
        assert file.read_text() == day
        given.add(file.name)
        file.unlink()  # as cleaning does; bronze keeps the name
    assert len(given) == 2
    again = folder / given.pop()
    again.touch()
    assert re.fullmatch(r"again-\d+-a\.csv", rename_landed(target, again).name)
    for wrong, said in ((folder / "a.csv", "no file"), (tmp_path / "a.csv", "below")):
        with pytest.raises(ConfigurationError, match=said):
            rename_landed(target, wrong)
