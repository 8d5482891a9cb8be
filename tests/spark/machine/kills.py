"""Breaks a command off before a write that is chosen by its number, as `kill -9` does.

From then on nothing is written any more: what the command's own clean-up would write is refused
too. Locks are let go, as those of an ended process are.
"""

import functools
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.sql import DataFrameWriter, DataFrameWriterV2
from pyspark.sql.session import SparkSession

from lakehouse.interrupts import go_on

WRITES = re.compile(
    r"\s*(INSERT|UPDATE|DELETE|MERGE|CREATE|ALTER|DROP|REPLACE|OPTIMIZE|VACUUM)\b", re.I
)
OF_SESSION = re.compile(
    r"\s*CREATE\s+(DATABASE|(OR REPLACE )?(TEMPORARY |TEMP )?(VIEW|FUNCTION))\b", re.I
)
POINTS = (
    (DataFrameWriterV2, "append"),
    (DataFrameWriterV2, "create"),
    (DataFrameWriterV2, "createOrReplace"),
    (DataFrameWriterV2, "overwrite"),
    (DataFrameWriter, "save"),
    (DeltaMergeBuilder, "execute"),
    (DeltaTable, "delete"),
    (DeltaTable, "update"),
    (Path, "replace"),
    (Path, "rename"),
)


class Killed(BaseException):
    """The process has ended here."""


Pass = Callable[[int], None]


class Count:
    """Counts the writes of a command, and does something before each."""

    def __init__(self, before: Pass) -> None:
        self._before, self._lock = before, threading.Lock()
        self.writes = 0

    def pass_by(self) -> None:
        """One more write is about to begin."""
        with self._lock:
            self.writes += 1
            number = self.writes
        self._before(number)


@contextmanager
def killed_before(at: int) -> Iterator[Count]:
    """In the block every command ends before its write number `at`."""

    def end(number: int) -> None:
        if number >= at:
            raise Killed

    with watched_writes(end) as count:
        yield count


@contextmanager
def watched_writes(before: Pass) -> Iterator[Count]:
    """In the block `before` is called with the number of each write, before it."""
    count = Count(before)
    with ExitStack() as stack:
        for owner, name in POINTS:
            stack.enter_context(patch.object(owner, name, _guard(getattr(owner, name), count)))
        sql = SparkSession.sql

        @functools.wraps(sql)
        def guarded(self: SparkSession, query: str, *args: Any, **more: Any) -> Any:
            if WRITES.match(query) and not OF_SESSION.match(query):
                count.pass_by()
            return sql(self, query, *args, **more)

        stack.enter_context(patch.object(SparkSession, "sql", guarded))
        yield count


@contextmanager
def pressed_before(at: int, seconds: float | None = None) -> Iterator[None]:
    """In the block Ctrl-C is pressed once, before write number `at` or after so many seconds."""
    free = threading.Lock()

    def press(number: int = at) -> None:
        if number >= at and free.acquire(blocking=False):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    late = threading.Timer(seconds or 0, press)
    if seconds is not None:
        late.start()
    try:
        with watched_writes(press):
            yield
    finally:
        late.cancel()
        for thread in threading.enumerate():
            if "_cancel_quietly" in thread.name:
                thread.join()
        go_on()


def _guard(method: Callable[..., Any], count: Count) -> Callable[..., Any]:
    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **more: Any) -> Any:
        if not (isinstance(self, Path) and "_locks" in self.parts):
            count.pass_by()
        return method(self, *args, **more)

    return guarded
