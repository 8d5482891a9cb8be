"""Where a row stands among its table's truncates, which may be thousands.

They stand in one literal, in groups: of n truncates a row is compared with some 2 √n.
"""

import json
from math import isqrt

from pyspark.sql import Column
from pyspark.sql import functions as F

from silver.snapshots import Truncate

_GROUPS = "array<struct<floors array<struct<stamp string, at bigint>>>>"


def newest_below(floors: list[Truncate]) -> Column:
    """The stamp of the newest truncate before the row; null without one."""
    if not floors:
        return F.lit(None).cast("string")
    older = F.filter(_grouped(floors), lambda group: group["floors"][0]["stamp"] < F.col("_stamp"))
    group = F.try_element_at(older, F.lit(-1))["floors"]
    below = F.filter(group, lambda floor: floor["stamp"] < F.col("_stamp"))
    return F.try_element_at(below, F.lit(-1))["stamp"]


def first_above(floors: list[Truncate]) -> Column:
    """The stamp and the commit time, `time`, of the first truncate after the row; else null."""
    if not floors:
        return F.lit(None).cast("struct<stamp string, time timestamp>")
    last = F.lit(-1)
    newer = F.filter(
        _grouped(floors),
        lambda group: F.try_element_at(group["floors"], last)["stamp"] > F.col("_stamp"),
    )
    group = F.get(newer, 0)["floors"]
    first = F.get(F.filter(group, lambda floor: floor["stamp"] > F.col("_stamp")), 0)
    time = F.timestamp_micros(first["at"]).alias("time")
    return F.when(first.isNotNull(), F.struct(first["stamp"].alias("stamp"), time))


def _grouped(floors: list[Truncate]) -> Column:
    size = isqrt(len(floors)) + 1
    groups = [floors[at : at + size] for at in range(0, len(floors), size)]
    said = [{"floors": [floor._asdict() for floor in group]} for group in groups]
    return F.from_json(F.lit(json.dumps(said)), _GROUPS)
