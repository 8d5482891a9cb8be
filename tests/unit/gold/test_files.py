import json
from pathlib import Path

from gold.status.pipeline import Files, read_checksum


def commit(log: Path, version: int, noted: str | None) -> None:
    (log / f"{version:020}.json").write_text("{}")
    if noted is not None:
        (log / f"{version:020}.crc").write_text(noted)


def test_the_newest_commits_checksum_counts(tmp_path: Path) -> None:
    noted = {"numFiles": 3, "tableSizeBytes": 99, "numDeletionVectorsOpt": 1}
    commit(tmp_path, 9, json.dumps({"numFiles": 1, "tableSizeBytes": 1}))
    commit(tmp_path, 10, json.dumps(noted))
    assert read_checksum(tmp_path) == Files(3, 99, 1)


def test_a_checksum_of_an_older_commit_says_nothing(tmp_path: Path) -> None:
    commit(tmp_path, 0, json.dumps({"numFiles": 1, "tableSizeBytes": 1}))
    commit(tmp_path, 1, None)
    assert read_checksum(tmp_path) is None


def test_an_unfinished_checksum_says_nothing(tmp_path: Path) -> None:
    commit(tmp_path, 0, '{"numFiles": 1,')
    assert read_checksum(tmp_path) is None
    assert read_checksum(tmp_path / "nowhere") is None
