import os
import socket
import tempfile
import uuid
from pathlib import Path

import pytest

from lakehouse.spark.scratch import make_temporary, scratch_folder, socket_folder, temporary_folder


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    host = socket.gethostname().partition(".")[0]
    killed, own = f"{host}.{1 << 30}", f"{host}.{os.getpid()}"
    lives, elsewhere = f"{host}.{os.getppid()}", f"{host}2.{1 << 30}"
    for left in (killed, own, lives, elsewhere):
        (tmp_path / "_tmp" / left / "spark-1").mkdir(parents=True)
    make_temporary(str(tmp_path))
    found = {place.name: len(list(place.iterdir())) for place in (tmp_path / "_tmp").iterdir()}
    assert found == {own: 1, lives: 1, elsewhere: 1}


def test_all_lies_in_the_lake_but_for_one_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writable, read_only = tmp_path / "a", tmp_path / "b"
    assert scratch_folder(str(writable)) == writable
    read_only.mkdir()
    monkeypatch.setattr("os.access", lambda place, mode: False)
    assert not scratch_folder(str(read_only)).is_relative_to(tmp_path)
    assert temporary_folder(str(read_only)).parents[1] == scratch_folder(str(read_only))
    assert scratch_folder(str(read_only)).is_dir()


def test_sockets_lie_in_a_folder_of_the_user_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    socket_folder.cache_clear()
    folder = socket_folder()
    assert folder is not None and folder.stat().st_mode & 0o777 == 0o700
    assert len(f"{folder}/.{uuid.uuid4()}.sock") < 104
    socket_folder.cache_clear()
    monkeypatch.setattr(tempfile, "tempdir", "/" + "x" * 60)
    assert socket_folder() is None
    socket_folder.cache_clear()
