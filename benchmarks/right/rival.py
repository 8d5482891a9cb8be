"""What every rival shares: it reads the cases, does each, and answers with the rows that it has.

Runs in any environment: it needs the standard library only. A rival is a process of its own,
`python -m benchmarks.right.MODULE CASES FOLDER [WORDS]`, and its answer is FOLDER/answer.json.
"""

import json
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]
BESIDE = {"op": "string", "lsn": "bigint", "at": "string"}
"""What a flattened row has beside the table's columns; `at` is the commit's time, ISO 8601."""


class CannotError(Exception):
    """The tool has no documented way to do what the case needs."""


class Case(NamedTuple):
    """A table and its changes as flattened rows; `files` has each batch as lines of JSON.

    `columns` are the table's with their types, `added` those that come later; `history` asks for
    versions, with `valid_from` and `valid_to`.
    """

    name: str
    table: str
    columns: dict[str, str]
    added: dict[str, str]
    history: bool
    batches: list[list[Row]]
    files: list[str]

    def known(self, batch: int) -> dict[str, str]:
        """The table's columns when a batch has arrived, with their types."""
        seen = {name for rows in self.batches[: batch + 1] for row in rows for name in row}
        return self.columns | {name: type for name, type in self.added.items() if name in seen}


def answer(run: Callable[[Case, Path], Sequence[Row]], *packages: str) -> None:
    """Does every case; the rows, or why there are none, are the answer, with the versions.

    Args:
        run: does one case in an empty folder, and gives the rows that a reader then sees.
        packages: whose versions are told.
    """
    folder = Path(sys.argv[2])
    cells: dict[str, object] = {}
    for case in [Case(**given) for given in json.loads(Path(sys.argv[1]).read_text())]:
        own = folder / case.table
        own.mkdir(parents=True)
        try:
            cells[case.name] = {"rows": run(case, own)}
        except CannotError as reason:
            cells[case.name] = {"cannot": str(reason)}
        except Exception as error:  # whatever a rival raises, its cell says so
            cells[case.name] = {"refused": f"{type(error).__name__}: {error}"[:400]}
    hand_in(folder, cells, *packages)


def hand_in(folder: Path, cells: object, *packages: str) -> None:
    """Writes the answer."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in packages)
    text = json.dumps({"versions": versions, "cells": cells}, default=_text)
    (folder / "answer.json").write_text(text)


def newest(rows: Sequence[Row]) -> list[Row]:
    """The newest change of each key; of equal ones that which came last."""
    return list({row["id"]: row for row in sorted(rows, key=lambda row: row["lsn"])}.values())


def _text(value: object) -> str:
    if not isinstance(value, datetime):
        raise TypeError(f"{value!r} has no text")
    known = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
    return known.astimezone(timezone.utc).isoformat()
