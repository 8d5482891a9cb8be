"""The file of the status: brought up to the ledger, and read by commands without an engine."""

import json
from pathlib import Path

import pytest

from gold.status.status_file import (
    FILE,
    KnownStatus,
    read_known,
    require_known,
    update_known,
    write_known,
)
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError
from tests.unit.gold.test_figures import entry


def test_the_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    target = Target(root=str(tmp_path))
    update_known(target, {"orders": {"rows": 3}, "people": {"rows": 1}})
    update_known(target, {"people": {"rows": 2}})
    known = require_known(target)
    assert {name: of.rows for name, of in known.tables.items()} == {"orders": 3, "people": 2}
    update_known(target, {})
    assert list(require_known(target).tables) == ["orders", "people"]


def test_a_measurement_that_is_older_than_the_one_that_is_there_changes_nothing(
    tmp_path: Path,
) -> None:
    target = Target(root=str(tmp_path))
    update_known(target, {"orders": {"measured": 2, "letters": {"no_key": 9}}})
    update_known(target, {"orders": {"measured": 1, "letters": {}}})
    assert require_known(target).tables["orders"].letters == {"no_key": 9}


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"format": 0}', b'{"tables": 7}'])
def test_a_file_that_cannot_be_read_says_what_to_do(tmp_path: Path, content: bytes | None) -> None:
    target, file = Target(root=str(tmp_path)), tmp_path / "lake" / FILE
    if content is not None:
        file.parent.mkdir()
        file.write_bytes(content)
    assert read_known(target) is None
    with pytest.raises(ConfigurationError, match=r"_status.json[\s\S]*`lakehouse run` writes it"):
        require_known(target)


def test_a_file_that_another_ledger_made_counts_for_nothing(tmp_path: Path) -> None:
    target, log = Target(root=str(tmp_path)), tmp_path / "lake" / "silver" / "_runs" / "_delta_log"
    log.mkdir(parents=True)
    first, second = (log / f"{number:020}.json" for number in range(2))
    for id in ("theirs", "ours"):
        assert read_known(target) is None
        first.write_text(json.dumps({"commitInfo": {"txnId": id}}))
        write_known(target, KnownStatus(commit=0))
        assert read_known(target) is not None
        first.write_text(json.dumps({"commitInfo": {"txnId": "another"}}))
    first.write_text(json.dumps({"commitInfo": {"txnId": "ours"}}))
    assert read_known(target) is not None
    second.write_text("")
    first.unlink()
    assert read_known(target) is not None, "Delta has deleted an old file of its log"
    second.unlink()
    assert read_known(target) is None


def test_what_no_table_reads_is_summed_up_by_feed() -> None:
    runs = [{"unread:c": 2, "unread": 1}, {"unread:c": 1}, {"unread": -1}]
    entries = [entry(9 - n, "bronze", table="feed_p", counts=c) for n, c in enumerate(runs)]
    known = KnownStatus().with_entries(4, [entry(1), *entries])
    assert (known.commit, known.unread) == (4, {"feed_p": {"unread:c": 3, "unread": 0}})
    assert list(known.tables) == ["orders"]
