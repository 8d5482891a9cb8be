"""Whether the laws that hold for every table hold for what is stored of this one.

A law is checked unit by unit: a key, a version, a bronze batch, a ledger entry. All laws are
answered by one query; those that are broken are asked once more for examples.
"""

from collections.abc import Mapping
from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake
from silver.audit import recomputed as rebuilt_laws
from silver.audit import row_checks
from silver.state.table_state import TableState, read_state

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


def verify(
    lake: Lake,
    table: Table,
    more: Mapping[str, DataFrame],
    sample: int | None = None,
    state: TableState | None = None,
) -> list[Law]:
    """The verdict on every law, in a fixed order.

    Args:
        lake: the lake.
        table: the table's configuration.
        more: further laws by name: frames of units as `build_row_laws` makes them.
        sample: about how many keys are rebuilt from bronze; None for all.
        state: what is known of the table, where the caller has read it.
    """
    seen = state or read_state(lake, table.table)
    stored = row_checks.build_row_laws(lake, table, seen)
    arrived = row_checks.build_arrival_laws(lake, table, seen)
    rebuilt, is_sampled = rebuilt_laws.build_rebuild_law(lake, table, seen, sample)
    judged = judge_laws({**stored, **more, **arrived, **rebuilt})
    return [law._replace(is_sampled=is_sampled and law.law in rebuilt) for law in judged]


def judge_laws(laws: Mapping[str, DataFrame]) -> list[Law]:
    """Counts the units of every law; a law without a unit holds."""
    if not laws:
        return []
    frames = {id(units): _name_law(law, units) for law, units in laws.items()}
    counted = reduce(DataFrame.unionByName, frames.values()).groupBy("law")
    totals = counted.agg(F.count(F.lit(1)).alias("checked"), F.count_if("bad").alias("broken"))
    counts = {row["law"]: (row["checked"], row["broken"]) for row in totals.collect()}
    return [_judge_law(law, units, *counts.get(law, (0, 0))) for law, units in laws.items()]


def _name_law(law: str, units: DataFrame) -> DataFrame:
    """The units with the name of their law; a frame of several laws has it."""
    return units if "law" in units.columns else units.withColumn("law", F.lit(law))


def _judge_law(law: str, units: DataFrame, checked: int, broken: int) -> Law:
    if not broken:
        return Law(law, checked, 0, [])
    wrong = _name_law(law, units).where(F.col("bad") & (F.col("law") == law))
    rows = wrong.limit(EXAMPLES).collect()
    return Law(law, checked, broken, sorted(row["unit"] for row in rows))
