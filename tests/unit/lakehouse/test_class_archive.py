import subprocess
from pathlib import Path

import pytest

from lakehouse.spark.java import archive_options, system_java, use_java


@pytest.fixture
def java(tmp_path: Path) -> str:
    program = tmp_path / "java"
    program.touch()
    return str(program)


def archive(text: str) -> Path:
    return Path(text.split()[0].split("=")[1])


def test_the_first_command_writes_the_archive_that_later_ones_use(
    java: str, tmp_path: Path
) -> None:
    first = archive_options(java, ["4.2"], tmp_path / "kept")
    assert first.startswith("-XX:ArchiveClassesAtExit=")
    archive(first).touch()
    later = archive_options(java, ["4.2"], tmp_path / "kept")
    assert later.startswith("-XX:SharedArchiveFile=")
    assert archive(later) == archive(first)


def test_other_libraries_and_another_java_have_an_archive_of_their_own(
    java: str, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.touch()
    given = [(java, ["4.2"]), (java, ["4.3"]), (java, ["4.2", "kafka"]), (str(other), ["4.2"])]
    assert len({archive(archive_options(*each, tmp_path)) for each in given}) == len(given)


def test_there_is_none_where_it_cannot_be_kept_or_named_or_there_is_no_java(
    java: str, tmp_path: Path
) -> None:
    assert archive_options(java, [], tmp_path / "two words") == ""
    assert archive_options(java, [], Path(java, "below")) == ""
    assert archive_options(None, [], tmp_path) == ""
    assert archive_options(str(tmp_path / "none"), [], tmp_path) == ""


def test_java_runs_without_an_archive_that_was_never_finished(tmp_path: Path) -> None:
    use_java()
    program = str(system_java())
    archive(archive_options(program, [], tmp_path)).write_bytes(bytes(1 << 20))
    given = archive_options(program, [], tmp_path)
    assert given.startswith("-XX:SharedArchiveFile=")
    ran = subprocess.run([program, *given.split(), "-version"], capture_output=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, b"")
