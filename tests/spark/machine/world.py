"""A lake in a folder, the commands that are typed there, and the sources that drop files."""

import contextlib
import io
import os
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cdc_lakehouse.cli.commands import app
from cdc_lakehouse.cli.front import run_command_line
from tests.spark.machine.group import MEMBERS, SHOP, Group
from tests.spark.machine.kills import Killed
from tests.spark.machine.model import Model
from tests.spark.machine.source import Source

KILLED = 137
TARGET = {"kind": "local", "root": ".", "master": "local[2]"}
TYPES = {"id": "bigint", "name": "string", "qty": "int", "op": "string", "v": "bigint"}
RULE = {"type": "expect_column_values_to_be_between", "column": "qty", "min_value": 0}


@dataclass(frozen=True)
class Answer:
    """What a command said, and its exit code."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"$ lakehouse {shlex.join(self.words)}\n{self.out}{self.err}[exit {self.code}]"

    @property
    def told(self) -> str:
        """What it said on stderr, as one line."""
        return " ".join(self.err.split())


@dataclass
class Played:
    """One table of a lake, with files and a YAML of its own.

    Attributes:
        name: the table's name.
        source: where its files come from.
        model: what it must show.
        files: how many files were named.
        days: by how many days the clock of the source's machine is wrong.
    """

    name: str
    source: Source
    model: Model
    files: int = 0
    days: int = 0

    def next_name(self) -> str:
        """The name of a new file in the landing folder."""
        self.files += 1
        return f"{self.files:03}.{'csv' if self.source.format == 'csv' else 'jsonl'}"

    def describe(self) -> dict[str, Any]:
        """The table's YAML."""
        conf, of = self.model.conf, self.source.format
        table: dict[str, Any] = {"table": self.name, "keys": ["id"]}
        columns = dict[str, Any](TYPES)
        if of == "debezium":
            table["source"] = {"format": "debezium", "path": self.name}
            columns = {name: columns[name] for name in ("id", "name", "qty")}
        else:
            kind = {"file_format": "csv"} if of == "csv" else {}
            table["source"] = {"format": "rows", "path": self.name, **kind, "time_column": "at"}
            ends = {"apply_as_deletes": "op = 'd'", "apply_as_truncates": "op = 't'"}
            table |= {"sequence_by": "v", **ends, "except_column_list": ["op", "v", "at"]}
            columns["at"] = "timestamp"
            if conf.where:
                table["source"]["where"] = "op <> 'x'"
        table |= {"publish": "table"} if conf.published else {}
        if conf.declared:
            columns["extra"] = "string"
        if conf.renamed:
            columns["label"] = {"type": columns.pop("name"), "renamed_from": "name"}
        table |= {"columns": columns, "stored_as_scd_type": 2 if conf.history else 1}
        table |= {"on_delete": "flag"} if conf.flag else {}
        return table | ({"expectations": [RULE]} if conf.rule else {})


@dataclass
class World:
    """One lake.

    Attributes:
        root: the folder of the project.
        tables: its tables, apart from those of the group.
        group: two tables that show the same transactions, in some lakes.
        script: what was done, as lines of a shell.
        answer: what the last command said.
        elsewhere: whether commands are typed in another folder.
        zone: the time zone of the machine.
        spent: the seconds of each command.
    """

    root: Path
    tables: list[Played]
    group: Group | None = None
    script: list[str] = field(default_factory=list)
    answer: Answer = Answer((), 0, "", "")
    elsewhere: bool = False
    zone: str = "UTC"
    spent: dict[str, float] = field(default_factory=dict)

    def begin(self) -> None:
        """Writes the project's files."""
        for folder in ("conf/targets", "conf/tables", "landing"):
            (self.root / folder).mkdir(parents=True)
        self.write("conf/targets/local.yml", yaml.safe_dump(TARGET))
        for table in self.tables:
            (self.root / "landing" / table.name).mkdir()
            self.write_yaml(table)
        if self.group is not None:
            (self.root / "landing" / SHOP).mkdir()
            for name in MEMBERS:
                text = yaml.safe_dump(self.group.describe(name), sort_keys=False)
                self.write(f"conf/tables/{name}.yml", text)

    def write(self, name: str, text: str) -> None:
        """Writes a file below the root, and notes it as a shell would have it."""
        (self.root / name).write_text(text, encoding="utf-8")
        end = "" if not text or text.endswith("\n") else "\n"
        self.note(f"cat > {shlex.quote(name)} <<'END'\n{text}{end}END" if text else f": > {name}")

    def note(self, line: str) -> None:
        """Adds a line to the script."""
        self.script.append(line)

    def write_yaml(self, table: Played) -> None:
        """Writes the table's YAML as the model's configuration has it, or removes it."""
        name = f"conf/tables/{table.name}.yml"
        if not table.model.conf.present:
            (self.root / name).unlink(missing_ok=True)
            self.note(f"rm -f {name}")
            return
        self.write(name, yaml.safe_dump(table.describe(), sort_keys=False))

    @property
    def has_tables(self) -> bool:
        """Whether some table has a YAML."""
        return self.group is not None or any(table.model.conf.present for table in self.tables)

    @property
    def refused(self) -> list[str]:
        """The tables that a run must refuse."""
        return [table.name for table in self.tables if table.model.refuses]

    @property
    def at_rest(self) -> list[Played]:
        """The tables of which silver has read all of bronze, with the YAML as it is."""
        return [table for table in self.tables if table.model.is_at_rest]

    def note_run(self) -> None:
        """A run has ended."""
        for table in self.tables:
            table.model.run()
        if self.group is not None:
            self.group.ingest()

    def list_landed(self, table: Played) -> set[str]:
        """The names in a table's landing folder."""
        return {file.name for file in (self.root / "landing" / table.name).iterdir()}

    def drop(self, table: Played, name: str, text: str) -> None:
        """Drops a file, or overwrites one."""
        file = f"landing/{table.name}/{name}"
        self.write(file, text)
        if table.days:
            at = time.time() + table.days * 86_400
            os.utime(self.root / file, (at, at))
            self.note(f"touch -d '{table.days} days' {file}")

    def type(self, *words: str) -> Answer:
        """Types a command, in the project's folder or elsewhere."""
        given = list(words)
        if self.elsewhere:
            given += ["--conf", str(self.root / "conf"), "--root", str(self.root)]
        out, err, code, began = io.StringIO(), io.StringIO(), 0, time.monotonic()
        with (
            _in_folder(self.root.parent if self.elsewhere else self.root),
            _own_hooks(self.zone),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                run_command_line(app, given)
            except Killed:
                code = KILLED
            except SystemExit as left:
                code = left.code if isinstance(left.code, int) else 1
            except Exception as error:  # at a terminal the hook shows it
                sys.excepthook(type(error), error, error.__traceback__)
                code = 1
        self.spent[words[0]] = self.spent.get(words[0], 0.0) + time.monotonic() - began
        self.answer = Answer(words, code, out.getvalue(), err.getvalue())
        if words[0] not in ("sql", "status"):
            self.note(f"lakehouse {shlex.join(words)}  # exit {code}")
        return self.answer


@contextlib.contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _own_hooks(zone: str) -> Iterator[None]:
    """The process's hook of exceptions and its time zone are as before when the block ends."""
    before = sys.excepthook
    _set_zone(zone)
    try:
        yield
    finally:
        sys.excepthook = before
        _set_zone("UTC")


def _set_zone(zone: str) -> None:
    os.environ["TZ"] = zone
    time.tzset()
