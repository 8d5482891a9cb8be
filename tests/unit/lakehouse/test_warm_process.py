"""A process that has imported everything answers commands as processes of their own would."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_lakehouse.cli import warm

ROOT = Path(__file__).parents[3]
SERVER = """
import os, sys, time
from pathlib import Path
from cdc_lakehouse.cli import warm

warm.IMPORTED = ()
with warm.warm_process() as asked:
    if not asked:
        print("ready", flush=True)
        sys.stdin.read()
        sys.exit()
if "wait" in sys.argv:
    try:
        print("waits", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        sys.exit(130)
print(*sys.argv[1:], Path.cwd().name, os.environ["MINE"], sys.stdin.read())
print("and this", file=sys.stderr)
sys.exit(3)
"""
NOBODY = 99
CLIENT = f"""
import sys
from cdc_lakehouse.cli import warm

code = warm.ask_warm_process()
sys.exit({NOBODY} if code is None else code)
"""


class Machine:
    """Where commands are typed: a folder for temporary files and one to be in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "here").mkdir()
        variables = {"TMPDIR": str(path), "PYTHONPATH": str(ROOT), "MINE": "own"}
        self.environment = os.environ | variables

    @property
    def folder(self) -> Path:
        return self.path / f"lakehouse-{os.getuid()}"

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", CLIENT, *words], cwd=self.path / "here", env=self.environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def type(self, *words: str) -> tuple[int, str, str]:
        client = self.start(*words)
        output, errors = client.communicate("typed")
        return client.returncode, output, errors


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def server(machine: Machine) -> "Iterator[subprocess.Popen[str]]":
    environment = machine.environment | {"MINE": "the server's"}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], env=environment, cwd=machine.path,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.communicate()


@pytest.mark.usefixtures("server")
def test_a_command_has_its_own_words_folder_environment_files_and_exit_code(
    machine: Machine,
) -> None:
    for words in (("sql", "SELECT 1"), ("dead-letters", "list")):
        assert machine.type(*words) == (3, f"{' '.join(words)} here own typed\n", "and this\n")


@pytest.mark.usefixtures("server")
def test_ctrl_c_reaches_the_command(machine: Machine) -> None:
    client = machine.start("sql", "wait")
    assert client.stdout is not None
    assert client.stdout.readline() == "waits\n"
    client.send_signal(signal.SIGINT)
    assert client.wait(20) == 130
    client.communicate()


def test_a_signal_that_comes_before_the_command_runs_reaches_it_too() -> None:
    ours, theirs = socket.socketpair()
    command = subprocess.Popen(["sleep", "60"])
    before = signal.getsignal(signal.SIGTERM)

    def serve() -> None:
        assert theirs.recv(1)
        os.kill(os.getpid(), signal.SIGTERM)
        theirs.sendall(f"{command.pid}\n".encode())
        theirs.sendall(f"{command.wait(20)}\n".encode())

    serving = threading.Thread(target=serve)
    serving.start()
    try:
        with ours, theirs:
            assert warm._send_command(ours) == 128 + signal.SIGTERM
    finally:
        for number in warm._PASSED_ON:
            signal.signal(number, signal.default_int_handler if number == 2 else before)
        serving.join()


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("words", [["run"], ["dead-letters", "replay"], []])
def test_what_does_more_than_ask_is_not_handed_over(machine: Machine, words: list[str]) -> None:
    assert machine.type(*words) == (NOBODY, "", "")


@pytest.mark.usefixtures("server")
def test_a_folder_that_others_can_enter_is_not_trusted(machine: Machine) -> None:
    machine.folder.chmod(0o755)
    assert machine.type("sql", "SELECT 1") == (NOBODY, "", "")


def test_what_an_ended_server_left_is_passed_over(
    machine: Machine, server: "subprocess.Popen[str]"
) -> None:
    (left,) = machine.folder.iterdir()
    server.kill()
    server.wait()
    assert left.exists()
    assert machine.type("sql", "SELECT 1") == (NOBODY, "", "")


def test_a_server_that_ends_takes_its_socket_along(
    machine: Machine, server: "subprocess.Popen[str]"
) -> None:
    server.communicate()
    assert list(machine.folder.iterdir()) == []
