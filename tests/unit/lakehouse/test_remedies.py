import json
from pathlib import Path

import pytest

from lakehouse import remedies
from lakehouse.config.target import Target
from lakehouse.errors import LakeNotWritable
from lakehouse.remedies import check_writable, find_remedy, install_extra


def test_a_lake_that_can_be_written_is_fine(tmp_path: Path) -> None:
    check_writable(Target(root=str(tmp_path)))
    assert list((tmp_path / "lake").iterdir()) == []


def test_a_lake_that_cannot_be_made_is_told_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file in its place")
    with pytest.raises(LakeNotWritable, match=r"cannot be written\n  found: .*\n  do: "):
        check_writable(Target(root=str(tmp_path)))


def test_a_full_disk_is_told_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert remedies.LEAST_FREE == 128 << 20, "the figure of the pages, for a lake's first start"
    monkeypatch.setattr(remedies, "LEAST_FREE", 1 << 62)
    with pytest.raises(LakeNotWritable) as refused:
        check_writable(Target(root=str(tmp_path)))
    assert "found:    less than 128 MiB free" in str(refused.value)
    assert "free some space and run again; nothing is lost" in str(refused.value)


@pytest.mark.parametrize(
    ("message", "action"),
    [
        ("java.io.IOException: No space left on device", "the disk is full"),
        (
            "cannot read a.json: (Permission denied). The other files are in; replace or remove"
            " these",
            "the right to read them",
        ),
        (
            "cannot read a.csv: the file lies in no folder YYYY-MM-DD, which names the day of its"
            " rows: move it there. The other files are in; replace or remove these",
            "the folder of its day",
        ),
        ("[DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION]", "gold.T_as_of"),
        ("org.apache.hadoop...: /lake/silver (Read-only file system)", "make it writable"),
        ("RuntimeException: /l/a.parquet is not a Parquet file", "put it back from a copy"),
        ("DamagedNotes: damaged note /l/taken/1.json", "remove the feed's folder"),
        ("[DELTA_TRUNCATED_TRANSACTION_LOG] /l/silver/t", "lakehouse rebuild"),
        ("java.lang.OutOfMemoryError: GC overhead limit exceeded", "more driver_memory"),
        ("SparkException: Could not allocate memory to grow BytesToBytesMap.", "driver_memory"),
        ("TimeoutException: Timed out waiting for a node assignment", "the broker"),
        ("no Kafka broker can be reached: k:9092 (connection refused)", "the broker"),
    ],
)
def test_a_failure_from_outside_names_the_way_out(message: str, action: str) -> None:
    assert action in str(find_remedy(message))


def test_an_extra_is_of_the_very_wheel_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Installed:
        told: str | None = None

        def read_text(self, _: str) -> str | None:
            return self.told

    monkeypatch.setattr(remedies, "distribution", lambda _: Installed())
    assert install_extra("quality") == "pip install 'cdc-lakehouse[quality]'"
    for url, more in (("file:///w/cdc.whl", " @ file:///w/cdc.whl"), ("file:///clone", "")):
        Installed.told = json.dumps({"url": url})
        assert install_extra("quality") == f"pip install 'cdc-lakehouse[quality]{more}'"


def test_other_failures_are_told_as_they_are() -> None:
    assert find_remedy("[UNRESOLVED_COLUMN] a") is None
