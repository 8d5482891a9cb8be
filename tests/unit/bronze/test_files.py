import os
from pathlib import Path
from typing import Any, cast

import pytest

from bronze.feeds import Feed, list_feeds
from bronze.files.file_kinds import UnreadableFile
from bronze.files.ingest import cut_batches
from bronze.files.lines import check_places
from bronze.files.listing import (
    DroppedFile,
    _list_disk,
    in_order,
    is_finished,
    list_files,
    list_here,
    literal_path,
)
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake


def feed(**limits: int) -> Feed:
    source = {"format": "debezium", "path": "p", **limits}
    return list_feeds([Table.model_validate({"table": "t", "keys": ["id"], "source": source})])[0]


def file(path: str, second: int) -> DroppedFile:
    return DroppedFile(path, 1000 * second, 1)


def test_files_are_in_order_of_change_then_of_name() -> None:
    files = [file("b", 1), file("c", 0), file("a", 1)]
    assert [found.path for found in in_order(files)] == ["c", "a", "b"]


def test_glob_characters_of_a_path_stand_for_themselves() -> None:
    assert literal_path(r"a[1]{b}*?\c d") == r"a\[1\]\{b\}\*\?\\c d"


def cut(files: list[DroppedFile], **limits: int) -> list[str]:
    return ["".join(file.path for file in batch) for batch in cut_batches(feed(**limits), files)]


def test_a_thousand_files_at_a_time_unless_a_limit_is_given() -> None:
    many = [file("a", 0)] * 1001
    assert [len(batch) for batch in cut_batches(feed(), many)] == [1000, 1]
    assert [len(batch) for batch in cut_batches(feed(max_bytes_per_trigger=2000), many)] == [1001]


def test_a_batch_has_one_file_at_least_and_keeps_to_both_limits() -> None:
    files = [
        DroppedFile(path, 0, size) for path, size in zip("abcde", (9, 1, 1, 1, 9), strict=True)
    ]
    assert cut(files, max_files_per_trigger=2) == ["ab", "cd", "e"]
    assert cut(files, max_bytes_per_trigger=4) == ["a", "bcd", "e"]
    assert cut(files, max_bytes_per_trigger=4, max_files_per_trigger=2) == ["a", "bc", "d", "e"]


def test_the_url_of_a_file_is_as_spark_spells_it() -> None:
    found = [file(f"{scheme}/l/a b%é[1]+=.json", 0).url for scheme in ("file:", "dbfs:", "file://")]
    assert found == ["/l/a%20b%25é%5B1%5D+=.json"] * 3
    assert file("s3a://b/x", 0).url == "s3a://b/x"


def test_names_of_files_that_are_still_being_written() -> None:
    names = ("a", "tmp", "a.tmpx", ".a", "_a", "a.tmp", "a._COPYING_", "a\udcff")
    assert [name for name in names if is_finished(name)] == ["a", "tmp", "a.tmpx"]


def test_what_is_no_file_is_listed_and_refused_and_a_missing_folder_is_not_made(
    tmp_path: Path,
) -> None:
    target, folder = Target(root=str(tmp_path)), tmp_path / "landing" / "shop"
    folder.mkdir(parents=True)
    (folder / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    (folder / "self.jsonl").symlink_to("self.jsonl")
    (folder / ".self").symlink_to(".self")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "sound.jsonl").write_text("{}")
    files = {Path(f.path).stem: f for f in list_here(target, str(folder), lambda path: False)}
    assert {name: f.is_file for name, f in files.items()} == {
        "gone": False, "pipe": False, "self": False, "sound": True
    }  # fmt: skip
    check_places(feed(), [files["sound"]])
    for name in ("gone", "pipe", "self"):
        with pytest.raises(UnreadableFile, match="a link that leads nowhere, expected a file"):
            check_places(feed(), [files["sound"], files[name]])
    assert list_files(Lake(cast(Any, None), target), str(folder / "typo"), lambda path: False) == []
    assert not (folder / "typo").exists()


def test_a_folder_that_is_removed_while_it_is_listed_has_no_files(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.jsonl").write_text("{}")
    listing = _list_disk(str(tmp_path), "file:", lambda path: False)
    first = Path(next(listing).path.removeprefix("file:"))
    others = [tmp_path / name for name in ("a", "b", "c") if name != first.parent.name]
    for folder in others:
        (folder / "1.jsonl").unlink()
        folder.rmdir()
    assert list(listing) == []


def test_links_that_lead_round_in_circles_are_no_files(tmp_path: Path) -> None:
    """Else each file would be read once for each way round."""
    (tmp_path / "1.jsonl").write_text("{}")
    (tmp_path / "above").symlink_to(tmp_path)
    with pytest.raises(OSError, match="symbolic links"):
        list_here(Target(root=str(tmp_path)), str(tmp_path), lambda path: False)
