from datetime import datetime, timezone

import pytest

from bronze.feeds import Feed, feeds
from bronze.files.ingest import in_order, listing_options
from bronze.files.lines import DroppedFile, literal_path
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError

LOCAL = Target(root="/r")
DATABRICKS = Target(kind="databricks", catalog="c", landing="/Volumes/l", checkpoints="/Volumes/c")


def feed(**limits: int) -> Feed:
    source = {"format": "debezium", "path": "p", **limits}
    return feeds([Table.model_validate({"table": "t", "keys": ["id"], "source": source})])[0]


def file(path: str, second: int) -> DroppedFile:
    return DroppedFile(path, datetime(2026, 1, 1, second=second, tzinfo=timezone.utc), 1, path)


def test_files_are_in_order_of_change_then_of_name() -> None:
    files = [file("b", 1), file("c", 0), file("a", 1)]
    assert [found.path for found in in_order(files)] == ["c", "a", "b"]


def test_glob_characters_of_a_path_stand_for_themselves() -> None:
    assert literal_path(r"a[1]{b}*?\c d") == r"a\[1\]\{b\}\*\?\\c d"


def test_a_thousand_files_at_a_time_unless_a_limit_is_given() -> None:
    assert listing_options(LOCAL, feed())["maxFilesPerTrigger"] == "1000"
    by_bytes = listing_options(LOCAL, feed(max_bytes_per_trigger=9))
    assert by_bytes["maxBytesPerTrigger"] == "9"
    assert "maxFilesPerTrigger" not in by_bytes


def test_two_limits_for_one_folder_are_refused_where_spark_takes_one() -> None:
    with pytest.raises(ConfigurationError):
        listing_options(LOCAL, feed(max_bytes_per_trigger=9, max_files_per_trigger=9))


def test_auto_loader_lists_on_databricks_and_takes_both_limits() -> None:
    both = feed(max_bytes_per_trigger=9, max_files_per_trigger=8)
    options = listing_options(DATABRICKS, both)
    assert options["cloudFiles.format"] == "binaryFile"
    limits = ("cloudFiles.maxBytesPerTrigger", "cloudFiles.maxFilesPerTrigger")
    assert [options[limit] for limit in limits] == ["9", "8"]


def test_files_are_never_too_old() -> None:
    assert listing_options(LOCAL, feed())["maxFileAge"] == "365000d"
