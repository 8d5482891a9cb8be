"""Whether the laws that hold for every table hold for what is stored of this one.

A law is checked unit by unit: a key, a version, a bronze batch, a ledger entry. All laws about
stored rows are answered by one query; those that are broken are asked once more for examples.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.run.ledger import read_counts
from lakehouse.storage.lake import Lake
from silver.audit import recomputed as rebuilt_laws
from silver.audit import row_checks
from silver.audit.row_checks import Units
from silver.state.table_state import TableState, read_states

EXAMPLES = 5


class Law(NamedTuple):
    """The result of one law: how many units were checked, how many break it, the first of these.

    `is_sampled`: the units are a sample of all.
    """

    law: str
    checked: int
    broken: int
    first: list[str]
    is_sampled: bool = False

    @property
    def holds(self) -> bool:
        """Whether no unit breaks it."""
        return self.broken == 0


class FromLedger(NamedTuple):
    """What the ledger has of a table: its newest state, and its runs with their counts."""

    state: TableState = TableState()
    runs: Sequence[tuple[str, Mapping[str, int]]] = ()


def read_ledger(lake: Lake) -> dict[str, FromLedger]:
    """What the ledger has of every table; a table without a run is missing."""
    states, runs = read_states(lake), read_counts(lake)
    names = states.keys() | runs.keys()
    return {name: FromLedger(states.get(name, TableState()), runs.get(name, ())) for name in names}


def verify(
    lake: Lake,
    table: Table,
    more: Mapping[str, Units],
    sample: int | None = None,
    of_ledger: FromLedger | None = None,
) -> list[Law]:
    """The verdict on every law, in a fixed order.

    Args:
        lake: the lake.
        table: the table's configuration.
        more: further laws by name, with their units as in `row_checks`.
        sample: about how many keys are rebuilt from bronze; None for all.
        of_ledger: what the ledger has of the table, where the caller has read it.
    """
    seen, runs = of_ledger or read_ledger(lake).get(table.table, FromLedger())
    stored = row_checks.build_row_laws(lake, table, seen)
    arrived: dict[str, Units] = {**row_checks.build_log_law(lake, table, seen)}
    arrived[row_checks.ADDS_UP] = row_checks.check_counts(runs)
    rebuilt, is_sampled = rebuilt_laws.build_rebuild_law(lake, table, seen, sample)
    judged = judge_laws({**stored, **more, **arrived, **rebuilt})
    return [law._replace(is_sampled=is_sampled and law.law in rebuilt) for law in judged]


def judge_laws(laws: Mapping[str, Units]) -> list[Law]:
    """Counts the units of every law; a law without a unit holds."""
    frames = {id(f): _name_law(law, f) for law, f in laws.items() if not isinstance(f, list)}
    counts: dict[str, tuple[int, int]] = {}
    if frames:
        counted = reduce(DataFrame.unionByName, frames.values()).groupBy("law")
        totals = counted.agg(F.count(F.lit(1)).alias("checked"), F.count_if("bad").alias("broken"))
        counts = {row["law"]: (row["checked"], row["broken"]) for row in totals.collect()}
    return [_judge_law(law, units, *counts.get(law, (0, 0))) for law, units in laws.items()]


def _name_law(law: str, units: DataFrame) -> DataFrame:
    """The units with the name of their law; a frame of several laws has it."""
    return units if "law" in units.columns else units.withColumn("law", F.lit(law))


def _judge_law(law: str, units: Units, checked: int, broken: int) -> Law:
    if isinstance(units, list):
        wrong = [unit for unit, bad in units if bad]
        return Law(law, len(units), len(wrong), sorted(wrong[:EXAMPLES]))
    if not broken:
        return Law(law, checked, 0, [])
    rows = _name_law(law, units).where(F.col("bad") & (F.col("law") == law))
    return Law(law, checked, broken, sorted(row["unit"] for row in rows.limit(EXAMPLES).collect()))
