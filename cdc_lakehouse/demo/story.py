"""The demo's story: what arrived, what came out, and why, in at most 40 lines of 80 columns."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from cdc_lakehouse.demo.questions import EXPLAINED, FIRST, LATE, Dropped
from cdc_lakehouse.terminal.grid import Row, lay_out

WIDTH = 80
UNBROKEN = "\N{NO-BREAK SPACE}"
MOST_TABLES, MOST_RECORDS = 4, 5
LATE_TEXT = (
    f"LATE  one change arrived last, in {LATE} after all of {FIRST}.",
    "      Its version stands where the source wrote it:",
)
DELETED_TEXT = ("DELETED  order 2 is gone from gold.orders; gold.orders_history still knows it:",)

if TYPE_CHECKING:
    from silver.audit.explain import Explained

Status = Mapping[str, object]


class Story(NamedTuple):
    """What the story is made of.

    `answers` are the rows of the demo's questions by name, `explained` the records of one key,
    `options` those with which other commands find the lake.
    """

    dropped: Dropped
    statuses: Sequence[Status]
    explained: "Sequence[Explained]"
    answers: Mapping[str, Sequence[Row]]
    report: Path
    options: str


def story_lines(story: Story) -> list[str]:
    """The lines, none wider than 80 columns; parts whose tables are not there are left out."""
    parts = [
        _render_arrived(story),
        _render_outcome(story),
        _render_explained(story),
        _render_answer(story, "history", ("tier", "prefs", "valid_from", "valid_to"), LATE_TEXT),
        _render_answer(story, "deleted", ("id", "status", "valid_from", "valid_to"), DELETED_TEXT),
        _render_next(story),
    ]
    return [line for part in parts if part for line in ("", *part)]


def _render_arrived(story: Story) -> list[str]:
    kinds = [f"{count} {word}" for word, count in story.dropped.kinds.items()]
    unbroken = ", ".join(kind.replace(" ", UNBROKEN) for kind in kinds)
    indent = " " * len("ARRIVED  ")
    lines = wrap(
        unbroken, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
    return [
        f"ARRIVED  {story.dropped.records} records that Debezium captured from a PostgreSQL shop:",
        *(line.replace(UNBROKEN, " ") for line in lines),
    ]


def _render_outcome(story: Story) -> list[str]:
    names = ("table", "rows", "rejected", "state")
    rows = [[str(status[name]) for name in names] for status in story.statuses[:MOST_TABLES]]
    return ["CAME OUT  in gold, one row per live key:", *_render_grid(names, rows)]


def _render_explained(story: Story) -> list[str]:
    """The records of one key that say something, each with what was done with it."""
    if not story.explained:
        return []
    rows = [
        [_time_of_day(each.source_time), each.operation, each.outcome, each.because]
        for each in story.explained[:MOST_RECORDS]
    ]
    return [
        f"EXPLAINED  every record of customer {EXPLAINED['id']}, in the source's order:",
        *_render_grid(("written", "what", "outcome", "why"), rows),
    ]


def _render_answer(
    story: Story, question: str, names: Sequence[str], heading: Sequence[str]
) -> list[str]:
    rows = story.answers.get(question, ())
    return [*heading, *_render_grid(names, rows)] if rows else []


def _render_next(story: Story) -> list[str]:
    key = f"'{{\"id\": {EXPLAINED['id']}}}'"
    asked = ('sql "SELECT * FROM gold.orders"', f"explain customers --key {key}", "status")
    program = _name_program()
    whole = [f"  {program} {command}{story.options}" for command in asked]
    if max(map(len, whole)) > WIDTH:
        whole = [f"  AT='{story.options.strip()}'", *(f"  {program} {each} $AT" for each in asked)]
    return [f"REPORT  {_shorten_path(story.report)}", "TRY", *whole]


def _name_program() -> str:
    """The program as this shell finds it: the path it was called by where it is not on the PATH."""
    found = Path(sys.argv[0]).name != "lakehouse" or shutil.which("lakehouse")
    return "lakehouse" if found else sys.argv[0]


def _shorten_path(file: Path) -> str:
    """The file's path from here or from the root, whichever is shorter."""
    return min(os.path.relpath(file), str(file), key=len)


def _render_grid(names: Sequence[str], rows: Sequence[Row]) -> list[str]:
    return [f"  {line}" for line in lay_out(names, rows, WIDTH - 2)]


def _time_of_day(time: str | None) -> str | None:
    """The time of day of an ISO time, to the millisecond."""
    if time is None:
        return None
    return datetime.fromisoformat(time.replace("Z", "+00:00")).strftime("%H:%M:%S.%f")[:-3]
