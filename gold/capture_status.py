"""How a capture does: a file in the target's folder of notes, which the capture writes itself."""

import time
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from lakehouse.config.target import Target
from lakehouse.durations import render_duration
from lakehouse.places.place import to_place, write_whole
from lakehouse.places.settings import is_reached
from lakehouse.words import render_count

FILE = "_capture.json"
SILENT_SECONDS = 60.0
"""A capture that runs writes more often."""
_MB = 1 << 20


class CaptureStatus(msgspec.Struct, frozen=True):
    """What a capture knew of itself when it last wrote.

    Attributes:
        name: the capture's name.
        state: `snapshot`, `streaming`, `stopped`, `failed`; `complete` after --once.
        at: when that was, in seconds since 1970.
        max_lag: the seconds of lag above which there is an alarm.
        max_kept: the bytes of the database's log above which there is an alarm.
        lag_seconds: how long the oldest change that is not written has waited.
        lag_bytes: the log behind what was written.
        kept_bytes: what the database keeps of its log.
        newest_file: when the newest file was written, in seconds since 1970.
        message: why it failed.
        unconverted: how many values Debezium could not convert since the last snapshot.
        column: of which column the last of them was.
    """

    name: str
    state: str
    at: float
    max_lag: float
    max_kept: int
    lag_seconds: float | None = None
    lag_bytes: int | None = None
    kept_bytes: int | None = None
    newest_file: float | None = None
    message: str | None = None
    unconverted: int = 0
    column: str = ""

    @property
    def lag(self) -> float | None:
        """Seconds of lag as of now: they grow while nobody captures."""
        age = time.time() - self.at
        if self.state == "streaming" and age < SILENT_SECONDS:
            return self.lag_seconds
        return None if self.state == "snapshot" else age + (self.lag_seconds or 0)

    def describe(self) -> str:
        """A line about it."""
        lag, kept, newest = self.lag, self.kept_bytes, self.newest_file
        late = render_duration(round(lag or 0))
        is_complete = self.state == "complete"
        parts = {
            f"capture {self.name}: {self.state}": self.state,
            f"captured everything as of {late} ago" if is_complete else f"{late} behind": lag,
            f"the database keeps {(kept or 0) / _MB:,.1f} MB of its log": kept,
            f"newest file {render_duration(round(time.time() - (newest or 0)))} ago": newest,
        }
        return ", ".join(part for part, value in parts.items() if value is not None)

    def find_troubles(self) -> Iterator[tuple[str, str]]:
        """What is wrong: a word, and a sentence."""
        again, kept = "`lakehouse capture`", self.kept_bytes or 0
        if self.state == "failed":
            yield "FAILED", " ".join((self.message or "no reason given").split())
        if self.unconverted:
            yield "VALUES", describe_unconverted(self.unconverted, self.column)
        if self.state != "complete" and self.lag is not None and self.lag > self.max_lag:
            behind, limit = render_duration(round(self.lag)), render_duration(self.max_lag)
            yield "LATE", f"{behind} behind, max_lag is {limit}; do: see that {again} runs"
        if kept > self.max_kept:
            problem = f"the database keeps {kept / _MB:,.0f} MB of its log, more than max_wal"
            yield "LOG", f"{problem}; do: {again}, or {again} --drop"


def describe_unconverted(count: int, column: str) -> str:
    """What to say of values that Debezium could not convert, the last one of this column."""
    values = render_count(count, "value")
    return (
        f"Debezium could not convert {values}, last of column {column}: they are null or wrong in"
        " gold; do: was its type changed, `lakehouse capture --snapshot` takes all rows again; else"
        " leave it out (`debezium: {column.exclude.list: …}` in conf/capture.yml) or cast it in the"
        " source first"
    )


def write_capture(target: Target, status: CaptureStatus) -> None:
    """Writes the file, where this process reaches the target's folder.

    Raises:
        OSError: it cannot be written.
    """
    if is_reached(target, target.checkpoints):
        write_whole(to_place(target, target.checkpoints, FILE), msgspec.json.encode(status))


def read_capture(target: Target) -> CaptureStatus | None:
    """What the capture has written; None where there is none."""
    with suppress(OSError, msgspec.MsgspecError):
        if is_reached(target, target.checkpoints):
            text = to_place(target, target.checkpoints, FILE).read_bytes()
            return msgspec.json.decode(text, type=CaptureStatus)
    return None


def list_capture_lines(target: Target) -> list[str]:
    """What `status` and the report say of the capture."""
    status = read_capture(target)
    if status is None:
        return []
    troubles = [f"capture: {word}: {text}" for word, text in status.find_troubles()]
    return [*troubles, status.describe()]
