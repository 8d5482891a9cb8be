"""Locks of a lake in a catalog: rows of silver's `_locks`, one for each name that runs have taken.

A run takes its names in one commit, and renews them while it works. A name that another run has is
waited for until that run renews it, which refuses this run, or until its time has passed, as it
does after a killed run. All times are the cluster's, so no clocks are compared.
"""

import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from lakehouse.errors import LockLost
from lakehouse.interrupts import go_on
from lakehouse.spark.failures import describe_failure
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import literal
from lakehouse.storage.writing import DeclaredTable
from lakehouse.words import parse_columns

TABLE = "_locks"
LEASE_SECONDS, RENEW_SECONDS, GLANCE_SECONDS = 180, 60.0, 5.0
"""How long a name is taken for, and the pauses between renewals, and between looks at others."""
MOST_TRIES = 20
COLUMNS = parse_columns("""
name | string | the layer, and the table or feed, that is written
holder | string | what distinguishes the process from every other
run_id | string | the run that writes, or was the last to write
host | string | where it runs
since | timestamp | since when
until | timestamp | when others may write, unless the run renews this time
""")
_LOCKS = DeclaredTable("silver", TABLE, "which run writes which table", COLUMNS)


@contextmanager
def hold_names(lake: Lake, names: Sequence[str], run_id: str) -> Iterator[dict[str, str]]:
    """Takes names in the lake; yields those that other runs hold, each with its holder.

    Raises:
        LockLost: at the end: the names could not be renewed, and another run took some.
    """
    lease = _Lease(lake, run_id, names)
    _LOCKS.ensure(lake)
    refused = lease.take()
    ended, lost = threading.Event(), threading.Event()
    given = len(names) - len(refused), ended, lost
    renewing = threading.Thread(target=lease.keep_renewing, args=given, daemon=True)
    renewing.start()
    try:
        yield refused
    except KeyboardInterrupt:
        if not lost.is_set():
            raise
        go_on()
    finally:
        ended.set()
        renewing.join()
        lease.release()
    if lost.is_set():
        raise LockLost(run_id)


class _Lease:
    """The names that one process holds, or would hold."""

    def __init__(self, lake: Lake, run_id: str, names: Sequence[str]) -> None:
        self._lake, self._table = lake, lake.name("silver", TABLE)
        self._holder, self._names = literal(uuid.uuid4().hex), ", ".join(map(literal, names))
        self._until = f"current_timestamp() + INTERVAL {LEASE_SECONDS} SECONDS"
        taken = {"holder": self._holder, "run_id": literal(run_id)}
        taken |= {"host": literal(socket.gethostname()), "since": "current_timestamp()"}
        self._taken = taken | {"until": self._until}

    def take(self) -> dict[str, str]:
        """Takes the names that are free; waits for those whose holders do not renew them."""
        seen = others = self._try_to_take()
        while any(row["until"] <= seen[name]["until"] for name, row in others.items()):
            time.sleep(GLANCE_SECONDS)
            others = self._try_to_take()
            seen = {**others, **seen}
        return {name: _describe(row) for name, row in others.items()}

    def keep_renewing(self, held: int, ended: threading.Event, lost: threading.Event) -> None:
        """Renews the names until the work has ended; interrupts the work if one is lost."""
        while held and not ended.wait(RENEW_SECONDS):
            with suppress(*SPARK_FAILURES):
                self._set_until(self._until)
                if len(self._read(f"holder = {self._holder}")) < held:
                    lost.set()
                    os.kill(os.getpid(), signal.SIGINT)
                    return

    def release(self) -> None:
        """Lets others take the names at once; without an answer the names are free by time."""
        with suppress(*SPARK_FAILURES):
            self._set_until("current_timestamp()")

    def _try_to_take(self) -> dict[str, Mapping[str, Any]]:
        """Takes what is free; returns the rows of what others hold."""
        taken = ", ".join(f"held.{column} = {value}" for column, value in self._taken.items())
        self._write(
            f"MERGE INTO {self._table} AS held"
            f" USING (SELECT explode(array({self._names})) AS name) AS wanted"
            " ON held.name = wanted.name"
            f" WHEN MATCHED AND (held.until <= current_timestamp() OR held.holder = {self._holder})"
            f" THEN UPDATE SET {taken}"
            f" WHEN NOT MATCHED THEN INSERT (name, {', '.join(self._taken)})"
            f" VALUES (wanted.name, {', '.join(self._taken.values())})"
        )
        return {row["name"]: row for row in self._read(f"holder <> {self._holder}")}

    def _set_until(self, until: str) -> None:
        mine = f"name IN ({self._names}) AND holder = {self._holder}"
        self._write(f"UPDATE {self._table} SET until = {until} WHERE {mine}")

    def _read(self, condition: str) -> list[dict[str, Any]]:
        """The rows of the names that are taken now."""
        current = f"name IN ({self._names}) AND until > current_timestamp()"
        return self._lake.ask(f"SELECT * FROM {self._table} WHERE {current} AND {condition}")

    def _write(self, text: str) -> None:
        """Writes one commit; again if other runs wrote at the same time."""
        for tries in range(1, MOST_TRIES + 1):
            try:
                self._lake.spark.sql(text)
            except SPARK_FAILURES as failure:
                if tries == MOST_TRIES or not describe_failure(failure).is_conflict:
                    raise
                time.sleep(0.1 * tries)
            else:
                return


def _describe(row: Mapping[str, Any]) -> str:
    """A holder as the message of a refused run has it."""
    return f"run {row['run_id']} on {row['host']}, since {row['since']:%F %T} UTC"
