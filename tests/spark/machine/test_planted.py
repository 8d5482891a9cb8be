"""Faults that are planted in the product, one for each thing that must hold: each is found."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bronze.files import ingest
from cdc_lakehouse.cli.ask import queries, status_records
from cdc_lakehouse.cli.work import rounds
from cdc_lakehouse.terminal import console
from gold import published
from gold.views import agreement, selects
from lakehouse import errors
from lakehouse.run import ledger
from silver.groups import transactions
from silver.state import epochs, fingerprint
from tests.spark.machine.driver import draw, play
from tests.spark.machine.test_machine import folder

__all__ = ["folder"]

TABLES = 3
MOST = 200 // TABLES
Plant = Callable[[pytest.MonkeyPatch], None]

pytestmark = pytest.mark.slow


def replacing(target: object, name: str, made: Callable[[Any], Any]) -> Plant:
    """A fault in the place of what `target` has under a name, made of that."""
    return lambda patch: patch.setattr(target, name, made(getattr(target, name)))


def _with_query(old: str, new: str) -> Callable[[Any], Any]:
    def made(build: Any) -> Any:
        def built(*given: Any) -> Any:
            view = build(*given)
            then = view.as_of and view.as_of.replace(old, new)
            return view._replace(query=view.query.replace(old, new), as_of=then)

        return built

    return made


def _without(name: str) -> Callable[[Any], Any]:
    """Status records in which a number is 0."""
    return lambda render: lambda *given: render(*given) | {name: 0}


def _without_last(files: list[Any]) -> list[Any]:
    return files[:-1] or files


def _uncounted(given: Any) -> Any:
    """Superseded records are left out of the ledger."""

    def kept(entry: Any, counts: Any, *more: Any, **named: Any) -> Any:
        some = {name: n for name, n in counts.items() if name != "superseded"}
        return given(entry, some, *more, **named)

    return kept


def _without_snapshots(cutoffs: Any) -> Any:
    """Where changes no longer count, but for those before a snapshot."""
    return lambda *given: [cutoff for cutoff in cutoffs(*given) if not cutoff.until]


def _apart(words: str) -> Callable[[Any], Any]:
    """Texts with some words at their end."""
    return lambda told: lambda *given: f"{told(*given)} {words}"


def _silent(init: Any) -> Any:
    """A refusal that does not say what to do."""

    def made(self: Any, table: str, differences: Any) -> None:
        errors.TableFailed.__init__(self, table, "; ".join(differences))

    return made


PLANTED: dict[str, tuple[Plant, str]] = {
    "gold shows closed versions": (
        replacing(selects, "build_current", _with_query("WHERE _is_current", "WHERE _shown")),
        "gold is the oracle's",
    ),
    "versions end when they begin": (
        replacing(selects, "build_history", _with_query("_valid_to AS", "_valid_from AS")),
        "history is the oracle's",
    ),
    "versions that have ended are not there at their time": (
        replacing(selects, "build_current", _with_query(" OR _valid_to > {at}", "")),
        "gold as of a time is the oracle's",
    ),
    "of several files one waits": (
        replacing(ingest, "in_order", lambda order: lambda files: _without_last(order(files))),
        "bronze has every record",
    ),
    "the published table stays as it was": (
        replacing(
            published.PublishedTable, "_select_touched",
            lambda select: lambda *given: select(*given).limit(0),
        ),
        "the published table is the oracle's",
    ),
    "dead letters are not counted": (
        replacing(status_records, "render_record", _without("dead_letters_total")),
        "dead letters are counted",
    ),
    "records are left out of the ledger": (
        replacing(ledger.Entry, "with_counts", _uncounted),
        "outcomes add up",
    ),
    "the status hides what is wrong": (
        replacing(queries, "list_lines", lambda _: lambda status: []),
        "status names what is wrong",
    ),
    "the status cries wolf": (
        replacing(queries, "name_state", lambda _: lambda record: "warning"),
        "status says ok if nothing is wrong",
    ),
    "verify finds what is not": (
        replacing(agreement, "_is_same_view", lambda _: lambda *views: False),
        "verify agrees",
    ),
    "a line is as long as it likes": (
        replacing(console, "_break_line", lambda _: lambda line, indent: [line]),
        "80 columns",
    ),
    "a message has Spark's own names": (
        replacing(rounds, "with_remedy", _apart("org.apache.spark.SparkException")),
        "no innards",
    ),
    "a YAML that contradicts the rows is applied": (
        replacing(fingerprint, "check_configuration", lambda _: lambda *given: None),
        "a run is refused exactly if it must",
    ),
    "gold shows half a transaction": (
        replacing(transactions, "find_incomplete", lambda _: lambda *given: []),
        "a group shows whole transactions",
    ),
    "a new snapshot removes nothing": (
        replacing(epochs.TableChanges, "cutoffs", _without_snapshots),
        "gold is the oracle's",
    ),
    "a refusal does not say what to do": (
        replacing(errors.ConfigurationDrift, "__init__", _silent),
        "a refusal says what to do",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(
    name: str, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, law = PLANTED[name]
    plant(monkeypatch)
    found = next(filter(None, (play(seed, draw(seed, TABLES), folder) for seed in range(MOST))))
    print(f"{name}: found in {(found.seed + 1) * TABLES} sequences, at time {found.steps[-1].at}")
    assert found.law == law, found
