"""The file that tells of a lake's server: who may read it, and when it is passed over."""

import os
import socket
import stat
from importlib.metadata import version
from pathlib import Path

import pytest

from lakehouse.config.target import Target
from lakehouse.errors import ServerUnreachable
from lakehouse.spark import server
from lakehouse.spark.server import (
    Server,
    find_server,
    is_own,
    read_server,
    remove_server,
    wait_for,
    write_server,
)
from lakehouse.storage.locks import process_start


@pytest.fixture
def target(tmp_path: Path) -> Target:
    (tmp_path / "lake").mkdir()
    return Target(root=str(tmp_path))


def of_this_process(**more: object) -> Server:
    own = {
        "host": socket.gethostname(), "pid": os.getpid(), "born": process_start(os.getpid()),
        "version": version("cdc-lakehouse"), "port": 1, "token": "t", "shown": "s",
    }  # fmt: skip
    return Server.model_validate(own | more)


def test_a_running_server_is_found_and_only_its_user_reads_the_file(target: Target) -> None:
    own = of_this_process()
    write_server(target, own)
    assert find_server(target) == own
    assert own.url == "sc://localhost:1/;token=t"
    (file,) = Path(target.lake).iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("other", [{"version": "0.0.1"}, {"born": "long ago"}, {"pid": 2**22 + 1}])
def test_a_dead_server_or_one_of_another_version_is_removed(
    target: Target, other: dict[str, object]
) -> None:
    write_server(target, of_this_process(**other))
    assert find_server(target) is None
    assert list(Path(target.lake).iterdir()) == []


def test_a_server_of_another_machine_is_left_alone(target: Target) -> None:
    write_server(target, of_this_process(host="elsewhere"))
    assert find_server(target) is None
    assert read_server(target) is not None


def test_what_is_no_such_file_is_passed_over(target: Target) -> None:
    assert find_server(target) is None
    Path(target.lake, "_server.json").write_text("{}")
    assert find_server(target) is None


def test_a_server_removes_its_own_file_only(target: Target) -> None:
    write_server(target, of_this_process(born="another"))
    remove_server(target, of_this_process())
    assert read_server(target) is not None
    assert not is_own(target, of_this_process())


def test_a_server_that_does_not_keep_up_is_told_of(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LONGEST_WAIT", 0.1)
    write_server(target, of_this_process())
    wait_for(target, "s")
    with pytest.raises(ServerUnreachable, match="--stop"):
        wait_for(target, "newer")
