"""A shell for tests: it types commands as a reader does, and returns what they print."""

import io
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from cdc_lakehouse.cli.commands import app
from cdc_lakehouse.cli.front import run_command_line
from lakehouse.spark.server import Server

ROOT = Path(__file__).parents[2]
PATIENCE = 300
"""Seconds that one command may take."""
WIDTH = 80

_OF_AN_OUTER_MAKE = {"MAKELEVEL", "MAKEFLAGS", "MFLAGS"}
"""With these, a `make` that is typed takes itself for a part of the one that runs the tests."""
_QUOTED = re.compile(r"'[^']*'|\"[^\"$`]*\"")
_FOR_BASH = set("|&;<>$`\n*~")


def end_servers(folder: Path) -> None:
    """Ends the servers that commands have started for the lakes below a folder."""
    for file in folder.rglob("lake/_server.json"):
        with suppress(ProcessLookupError):
            os.kill(Server.model_validate_json(file.read_bytes()).pid, signal.SIGTERM)


class Told(NamedTuple):
    """The exit code of a command, and its output: both streams in one, as on a terminal."""

    code: int
    text: str


class Shell:
    """A working directory and an environment, both kept from command to command.

    Commands run in bash. With `in_process`, a plain `lakehouse` command runs in this process, where
    a Spark session is up already. A command of `known` is not typed: it was, in this folder.
    """

    def __init__(
        self,
        folder: Path,
        own: Path,
        more: Mapping[str, str] = MappingProxyType({}),
        in_process: bool = False,
        known: Mapping[str, Told] = MappingProxyType({}),
    ) -> None:
        """`own` is a folder for the shell's own notes, `more` the variables beside today's."""
        programs = f"{sys.prefix}/bin:{os.environ['PATH']}"
        variables = {"COLUMNS": str(WIDTH), "PATH": programs, "PYTHONPATH": str(ROOT)}
        self._folder, self._in_process, self._known = folder, in_process, known
        around = {k: v for k, v in os.environ.items() if k not in _OF_AN_OUTER_MAKE}
        self._environment = {**around, **variables, **more}
        self._notes = own / "folder", own / "environment"

    def type(self, command: str) -> Told:
        """Run one command, which may have several lines."""
        if command in self._known:
            return self._known[command]
        plain = command.startswith("lakehouse ") and not _FOR_BASH & set(_QUOTED.sub("", command))
        if plain and self._in_process:
            return self._call(shlex.split(command)[1:])
        return self._bash(command)

    def _bash(self, command: str) -> Told:
        folder, environment = self._notes
        keep = f"code=$?; pwd >{folder}; env -0 >{environment}; exit $code"
        ran = subprocess.run(
            ["bash", "-c", f"{command}\n{keep}"], cwd=self._folder, env=self._environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False, timeout=PATIENCE,
        )  # fmt: skip
        self._folder = Path(folder.read_text().rstrip("\n"))
        pairs = environment.read_text().rstrip("\0").split("\0")
        self._environment = dict(pair.split("=", 1) for pair in pairs)
        return Told(ran.returncode, ran.stdout)

    def _call(self, arguments: list[str]) -> Told:
        told, before, hook = io.StringIO(), Path.cwd(), sys.excepthook
        os.chdir(self._folder)
        try:
            with redirect_stdout(told), redirect_stderr(told):
                run_command_line(app, arguments)
        except SystemExit as left:
            return Told(int(left.code or 0), told.getvalue())
        finally:
            os.chdir(before)
            sys.excepthook = hook
        return Told(0, told.getvalue())
