"""Commands that a warm process answers, which has already imported what takes seconds to import.

A server of a lake has such a process beside it. It listens on a socket in a folder that this user
alone can enter. Each command gets a fork of it, with the files, folder and environment of the
process that was started for the command, so that it behaves as the command that was typed.
"""

import json
import os
import signal
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from types import FrameType

ASKING = (["sql"], ["status"], ["explain"], ["dead-letters", "list"])
"""The commands that only ask, as they begin on a command line."""
IMPORTED = (
    "pandas",
    "pyarrow.compute",
    "pyspark.sql.connect.session",
    "bronze.kafka.ingest",
    "gold.status.metrics",
    "gold.status.reads",
    "gold.status.table_status",
    "gold.views.catalog",
    "silver.audit.explain",
    "silver.changelog.dead_letter_list",
)
_POSSIBLE = hasattr(socket, "send_fds")
_LENGTH_BYTES = 4
_BY_SIGNAL = 128
"""The exit code of a process that signal N ended is 128 + N, as in a shell."""
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def ask_warm_process() -> int | None:
    """The exit code of this process' command line, run by a warm process; None if there is none.

    Ctrl-C and the signals that end a process reach the fork that runs the command.
    """
    typed = sys.argv[1:]
    if not _POSSIBLE or not any(typed[: len(words)] == words for words in ASKING):
        return None
    paths = sorted(_socket_folder().glob(f"{_digest_installation()}-*"))
    for path in paths if paths and _has_folder() else ():
        with suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            return _send_command(connection)
    return None


@contextmanager
def warm_process() -> Iterator[bool]:
    """A warm process beside this one, which must have no threads yet; it ends with this one.

    Yields False in this process, and True in each fork, which then has to run its command line.
    """
    if not _POSSIBLE or not _has_folder():
        yield False
        return
    path = _socket_folder() / f"{_digest_installation()}-{os.getpid()}"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        # The warm process reads from the one end until nobody holds the other one any more.
        ended, alive = os.pipe()
        if os.fork() == 0:
            os.close(alive)
            _wait_for_commands(listening, ended)
            yield True
            return
        os.close(ended)
    try:
        yield False
    finally:
        path.unlink(missing_ok=True)
        os.close(alive)


def _socket_folder() -> Path:
    return Path(tempfile.gettempdir(), f"lakehouse-{os.getuid()}")


def _has_folder() -> bool:
    """Whether the folder is there, or can be made, and nobody but this user can enter it."""
    with suppress(FileExistsError):
        _socket_folder().mkdir(mode=0o700)
    status = os.lstat(_socket_folder())
    mode = stat.S_IMODE(status.st_mode)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and mode == 0o700


def _digest_installation() -> str:
    """A digest that differs between installations, and between versions of one."""
    itself = Path(__file__).stat()
    text = f"{sys.executable} {__file__} {itself.st_ino} {itself.st_mtime_ns}"
    return sha256(text.encode()).hexdigest()[:16]


def _send_command(connection: socket.socket) -> int | None:
    """The exit code; None where the warm process ends before it took the command.

    Signals go to the process that runs the command; those that come before it runs, afterwards.
    """
    began: list[int] = []
    early: list[int] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        if not began:
            early.append(number)
            return
        with suppress(ProcessLookupError):
            os.kill(began[0], number)

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    request = {"argv": sys.argv, "folder": str(Path.cwd()), "environment": dict(os.environ)}
    text = json.dumps(request).encode()
    socket.send_fds(connection, [len(text).to_bytes(_LENGTH_BYTES, "big")], [0, 1, 2])
    connection.sendall(text)
    answers = connection.makefile("r")
    pid = answers.readline()
    if not pid:
        for passed, handler in before.items():
            signal.signal(passed, handler)
        for number in early:
            os.kill(os.getpid(), number)
        return None
    began.append(int(pid))
    for number in early:
        pass_on(number, None)
    code = int(answers.readline() or 1)
    return code if code >= 0 else _BY_SIGNAL - code


def _wait_for_commands(listening: socket.socket, ended: int) -> None:
    """Forks for every command; returns in a fork only."""
    import select

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for name in IMPORTED:
        with suppress(ImportError):
            import_module(name)
    while True:
        ready, _, _ = select.select([listening.fileno(), ended], [], [])
        if ended in ready:
            os._exit(0)
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _become_the_command(connection)
            return
        connection.close()


def _become_the_command(connection: socket.socket) -> None:
    """Forks, and returns in the child; the parent waits for it and sends its exit code."""
    try:
        length, files, _, _ = socket.recv_fds(connection, _LENGTH_BYTES, 3)
        with connection.makefile("rb") as sent:
            request = json.loads(sent.read(int.from_bytes(length, "big")))
    except (OSError, ValueError):
        os._exit(1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    command = os.fork()
    if command:
        with suppress(OSError):
            connection.sendall(f"{command}\n".encode())
            _, status = os.waitpid(command, 0)
            connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)
    connection.close()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(line_buffering=stream.isatty() or stream is sys.stderr)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["argv"]
