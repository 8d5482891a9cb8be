"""One layer's job over some tables: tried again at once where Delta transactions collide."""

import functools
import importlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

from lakehouse.conflicts import MOST_TRIES, is_conflict
from lakehouse.failures import in_short
from lakehouse.memory import Memory
from lakehouse.table import Table
from lakehouse.target import Layer, Target
from lakehouse.ways_out import session_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.console import Progress
    from lakehouse.ledger import Entry

    Job = Callable[[SparkSession, Target, list[Table], str, Progress], list[Entry]]

JOBS: dict[Layer, str] = {"bronze": "ingest", "silver": "apply", "gold": "publish"}
RECORDED_HERE = ("bronze", "gold")


class Round(NamedTuple):
    """What all work of a round needs.

    Attributes:
        spark: the session.
        target: where the lake lies.
        run_id: the name of the run in the ledger; one of its own for each piece of work else.
        everything: all tables that are configured, be they worked on or not.
        memory: what the run knows from earlier rounds, by who holds the locks of the tables.
    """

    spark: "SparkSession"
    target: Target
    run_id: str | None = None
    everything: list[Table] | None = None
    memory: Memory | None = None


def do_layer(
    given: Round, tables: Sequence[Table], layer: Layer, tell: "Progress", watched: bool = True
) -> "list[Entry]":
    """The layer's job, with its entries in the ledger.

    Idle tables leave nothing there, unless they failed before.

    `watched` looks for records that are gone at the source as well, in bronze, and in silver for
    positions that run backwards and snapshots that make up for either. A table whose failure names
    a conflict between Delta transactions is done again at once, a few times; no other failure is.
    """
    from lakehouse import ledger

    spark, target, memory = given.spark, given.target, given.memory or Memory()
    run, do = given.run_id or uuid.uuid4().hex, job(layer, given.everything, memory)
    done = {entry.table: entry for entry in do(spark, target, list(tables), run, tell)}
    for _ in range(MOST_TRIES - 1):
        again = [table for table in tables if is_conflict(done[table.table].message)]
        if not again:
            break
        done |= {entry.table: entry for entry in do(spark, target, again, run, tell)}
    entries = list(done.values())
    if layer == "bronze":
        memory.count(entries)
    if watched and layer == "bronze":
        look = importlib.import_module("bronze.watch").watch
        entries = look(spark, target, tables, entries, run, memory)
    if watched and layer == "silver":
        look = importlib.import_module("silver.maintenance.closed_gaps").watch
        entries = look(spark, target, tables, entries)
    if layer in RECORDED_HERE:
        told = to_keep(given, entries, memory)
        followed = memory.defers and layer == "bronze" and any(map(_is_followed, told))
        waits = [entry for entry in told if followed and entry.status == "ok"]
        memory.waiting.extend(waits)
        ledger.append(spark, target, [entry for entry in told if entry not in waits])
    return entries


def to_keep(given: Round, entries: "Sequence[Entry]", memory: Memory) -> "list[Entry]":
    """The entries for the ledger: those of which anything came, and the first after a failure."""
    from lakehouse import ledger

    if memory.failing is None and not all(map(is_worth_telling, entries)):
        memory.failing = ledger.failing(given.spark, given.target)
    failing = memory.failing or set()
    kept = [e for e in entries if is_worth_telling(e) or (e.layer, e.table) in failing]
    if memory.failing is not None:
        memory.failing -= {(e.layer, e.table) for e in kept if e.status == "ok"}
        memory.failing |= {(e.layer, e.table) for e in kept if e.status == "failed"}
    return kept


def try_layer(
    given: Round, tables: Sequence[Table], layer: Layer, tell: "Progress", watched: bool = True
) -> "list[Entry]":
    """The same; what fails of all tables at once, such as the ledger, is a failure of each.

    Raises:
        SparkUnavailable: the session is gone, so that nothing could be tried again.
    """
    from lakehouse import ledger
    from lakehouse.session import has_ended
    from lakehouse.spark_failures import TABLE_FAILURES

    began = datetime.now(timezone.utc)
    try:
        done = do_layer(given, tables, layer, tell, watched)
    except TABLE_FAILURES as failure:
        run, said = given.run_id or "none", in_short(failure)
        done = [ledger.told(run, layer, table.table, began, said) for table in tables]
    if any(entry.status == "failed" for entry in done) and has_ended(given.spark):
        raise session_ended(given.target)
    return done


@contextmanager
def telling_together(
    spark: "SparkSession", target: Target, layers: Sequence[Layer], memory: Memory | None
) -> Iterator[None]:
    """Meanwhile bronze's entries go into the ledger with silver's, one commit for both.

    What waits at the end is written then, unless the work broke off. A run that goes on has a
    session for little work besides.
    """
    from lakehouse import ledger
    from lakehouse.session import interpreted

    memory = memory or Memory()
    if memory.among is not None and target.kind == "local":
        memory.brief = interpreted(spark)
    memory.defers = {"bronze", "silver"} <= set(layers)
    yield
    memory.defers = False
    ledger.append_with_waiting(spark, target, [], memory)


def _is_followed(entry: "Entry") -> bool:
    """Whether silver has something to do because of bronze's entry."""
    return entry.status == "ok" and entry.counts.get("records", 0) > 0


def is_worth_telling(entry: "Entry") -> bool:
    """Whether anything came of it."""
    return entry.status == "failed" or any(entry.counts.values())


def job(layer: Layer, everything: list[Table] | None, memory: Memory) -> "Job":
    """The layer's function of `job.py`; gold and bronze know the tables that are not worked on."""
    done: Callable[..., list[Entry]] = getattr(importlib.import_module(f"{layer}.job"), JOBS[layer])
    if layer == "gold":
        return functools.partial(done, configured=everything)
    memory.configured = everything
    return functools.partial(done, memory=memory)
