"""What commands print: progress, warnings and errors on stderr, lines and tables on stdout."""

import itertools
import json
import os
import re
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import NamedTuple, TypeVar

from rich.console import Console
from rich.text import Text

from cdc_lakehouse.terminal.grid import Row, cut_to_width, lay_out
from cdc_lakehouse.terminal.verbosity import Level, current_level, is_json
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry
from lakehouse.storage.names import short_names

Item = TypeVar("Item")
Progress = Callable[[str], None]

SHORTEST, TALLEST = 20, 48
"""Columns that are assumed at least, and lines that a table may have on a terminal."""
MOST_PAGED = 10_000
"""Rows that a pager shows at most."""
HEARTBEAT_SECONDS = 5.0

_doing: list[str] = []
_COMMAND, _HELD = re.compile(r"`[^`]*`"), "\x00"
_VERDICT = re.compile(
    r"(?P<bad>^error:|\b(?:FAILED|MISCOUNTED|GAPS|KEYS|STALE)\b)"
    r"|(?P<hint>^warning:|\bdead letters?\b)|(?P<good>(?<![\w.-])ok(?![\w.-]))"
)
_CODES = {"bad": "31", "hint": "33", "good": "32"}
_LABEL = re.compile(r" *(?:found|expected|do): +")


def get_width() -> int | None:
    """Columns of the terminal, or the variable COLUMNS; None, so no limit, in a file or pipe."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given):
        return max(int(given), SHORTEST)
    return max(shutil.get_terminal_size().columns, SHORTEST) if sys.stdout.isatty() else None


class LiveStep(NamedTuple):
    """The current step and its seconds, as text and as a live line of a terminal."""

    began: float

    def __str__(self) -> str:
        return f"{current_step() or ''} ({time.monotonic() - self.began:.0f} s)"

    def __rich__(self) -> Text:
        return Text(str(self))


@contextmanager
def show_progress(title: str) -> Iterator[Progress]:
    """Shows the current step and its seconds: a live line, elsewhere a line every few seconds.

    Yields a function that takes the text of the step. With `--quiet` nothing is printed.
    """
    _doing.append(title)
    console, step = Console(stderr=True), LiveStep(time.monotonic())

    def note(line: str) -> None:
        named = line.startswith(title) or not line
        _doing[:] = [line or title] if named else [f"{title}: {line}"]

    try:
        if current_level() is Level.QUIET:
            yield note
        elif console.is_terminal and not is_json():
            with console.status(step):
                yield note
        else:
            with _show_heartbeat(step):
                yield note
    except KeyboardInterrupt:
        raise  # `current_step` still names the step that was interrupted
    except BaseException:
        _doing.clear()
        raise
    else:
        _doing.clear()


def wait_for_first(title: str, rows: Iterable[Item]) -> Iterator[Item]:
    """Shows progress until the first row is there; returns an iterator over all rows."""
    rest = iter(rows)
    with show_progress(title):
        first = list(itertools.islice(rest, 1))
    return itertools.chain(first, rest)


def current_step() -> str | None:
    """The current step, or the one that an interrupt broke off; None between two steps."""
    return _doing[-1] if _doing else None


def say(line: str, whole: bool = False) -> None:
    """Prints a line of news on stdout, which `--quiet` leaves out; what does not fit is cut.

    A `whole` one goes on in the lines below.
    """
    if current_level() is not Level.QUIET:
        shown = "\n".join(wrap_line(line)) if whole else fit_line(line)
        print(log_line("info", line) if is_json() else add_colours(shown), flush=True)


def say_aside(line: str) -> None:
    """Prints a line of progress on stderr."""
    print(log_line("progress", line) if is_json() else line, file=sys.stderr, flush=True)


def warn(line: str) -> None:
    """Prints a warning on stderr."""
    text = add_colours("\n".join(wrap_line(f"warning: {line}")), to_stderr=True)
    print(log_line("warning", line) if is_json() else text, file=sys.stderr, flush=True)


def log_line(kind: str, message: str | None, **more: object) -> str:
    """One line of the log as a JSON object: time, level, message, and what else there is."""
    at = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"at": at, "level": kind, "message": message, **more}, ensure_ascii=False)


def make_line_printer(target: Target, news: bool = False) -> Progress:
    """A function that prints a line of an answer: tables by short names, broken at the width.

    Lines that are `news` are left out with `--quiet`.
    """

    def tell(line: str) -> None:
        if news and current_level() is Level.QUIET:
            return
        print("\n".join(wrap_line(short_names(target, line))), flush=True)

    return tell


def fit_line(line: str) -> str:
    """The line, cut to the width of the terminal where there is one."""
    room = get_width()
    return line if room is None else cut_to_width(line, room)


def wrap_line(line: str) -> list[str]:
    """The line, broken at the width of the terminal where there is one, its rest indented."""
    return _break_line(line, "    ")


def show_error(text: str) -> None:
    """A message of several lines on stderr; on a terminal each line is broken at its width.

    The rest of a broken line is indented to the text after its label, such as `found:`.
    """
    if is_json():
        print(log_line("error", text), file=sys.stderr, flush=True)
        return
    for line in f"error: {text}".splitlines():
        label = _LABEL.match(line)
        indent = label.end() if label else len(line) - len(line.lstrip()) + 4
        shown = _break_line(line, " " * indent) if sys.stderr.isatty() else [line]
        print(add_colours("\n".join(shown), to_stderr=True), file=sys.stderr, flush=True)


def _break_line(line: str, indent: str) -> list[str]:
    """The line in parts that fit the terminal; `do: …` begins a line of its own.

    Names such as `dead-letters`, and commands in backticks, are never broken.
    """
    room = get_width() or shutil.get_terminal_size().columns
    message, do, action = line.partition("; do: ") if len(line) > room else (line, "", "")
    held = [message, f"{indent}do: {action}"] if do else [line]
    parts = [_COMMAND.sub(lambda match: match[0].replace(" ", _HELD), text) for text in held]
    broken = [text for part in parts for text in _fill_lines(part, room, indent)]
    return [text.replace(_HELD, " ") for text in broken]


def _fill_lines(text: str, room: int, indent: str) -> list[str]:
    """The text in lines; a command that is longer than a line stays whole."""
    breaks = all(len(word) + len(indent) <= room for word in text.split() if _HELD in word)
    return textwrap.wrap(
        text, room, subsequent_indent=indent, break_on_hyphens=False, break_long_words=breaks
    )


def add_colours(text: str, to_stderr: bool = False) -> str:
    """The text with its verdicts in colours, if it goes to a terminal and NO_COLOR is not set.

    Red: something failed; yellow: somebody should look at it; green: it is well.
    """
    stream = sys.stderr if to_stderr else sys.stdout
    if os.environ.get("NO_COLOR") or not stream.isatty():
        return text
    return _VERDICT.sub(lambda word: f"\x1b[{_CODES[word.lastgroup or '']}m{word[0]}\x1b[0m", text)


def entry_line(entry: Entry) -> str:
    """The line of one table in one layer: layer, table, status, seconds, counts."""
    counted = ", ".join(f"{count:,} {name}" for name, count in entry.counts.items() if count)
    outcome = entry.message if entry.status == "failed" else counted or "nothing new"
    seconds = entry.duration_ms / 1000
    return f"{entry.layer:<7} {entry.table:<24} {entry.status:<7} {seconds:6.1f} s  {outcome}"


def show_grid(
    columns: Sequence[str], rows: Iterable[Row], rest: str = "", shown: Callable[[str], str] = str
) -> None:
    """Prints rows under their columns; as blocks where the terminal is too narrow.

    On a terminal at most `TALLEST` lines are shown, no record cut, then a line says that there is
    more; `rest`
    says how to see the rest, `shown` gives a line its colours. Only as many rows are read as can be
    shown.
    """
    room = get_width()
    some = list(itertools.islice(rows, None if room is None else TALLEST))
    lines = lay_out(columns, some, room)
    if room is not None and len(lines) >= TALLEST:
        more = f"… there is more{': ' if rest else ''}{rest}"
        of_record = len(columns) + 1 if lines[0].startswith("── 1 ") else 1
        whole = (TALLEST - 2) // of_record * of_record or TALLEST - 2
        lines[whole:] = [cut_to_width(more, room)]
    for line in lines:
        print(shown(line))


def page_grid(columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Rows under their columns; on a terminal a pager shows what is longer than the screen.

    Then at most `MOST_PAGED` rows are shown, and a line says that there is more.
    """
    room = get_width()
    some = list(itertools.islice(rows, None if room is None else MOST_PAGED + 1))
    lines = lay_out(columns, some[:MOST_PAGED] if room else some, room)
    if room and len(some) > MOST_PAGED:
        lines.append(cut_to_width(f"… there is more than {MOST_PAGED:,} rows", room))
    if sys.stdout.isatty() and len(lines) >= shutil.get_terminal_size().lines:
        from pydoc import pager

        pager("\n".join(lines))
    else:
        print("\n".join(lines))


def show_records(records: Sequence[Mapping[str, object]], as_json: bool) -> None:
    """Dicts of the same keys: one JSON object per line, or a grid."""
    if as_json:
        for record in records:
            print(json.dumps(record, default=str, ensure_ascii=False))
    elif records:
        texts = ([None if v in (None, "") else str(v) for v in r.values()] for r in records)
        show_grid(list(records[0]), texts, "--format json shows all", add_colours)


@contextmanager
def _show_heartbeat(step: LiveStep) -> Iterator[None]:
    """Within, prints the step and its seconds on stderr every few seconds."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(HEARTBEAT_SECONDS):
            say_aside(str(step))

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
