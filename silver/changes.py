"""What every decoder ends with: the origin of the record and the columns of the contract.

While a decoder works, all columns that are not the table's have names with two underscores in
front, so that nothing a source calls its columns can get in the way.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.names import quote
from silver.contract import CHANGE_COLUMNS
from silver.shapes import Shape, noted

ORIGIN = "__origin"
_ASKED_FOR = ("_operation", "_absent", "_source_time")
_KEPT = (
    "_raw",
    "_topic",
    "_partition",
    "_offset",
    "_timestamp",
    "_file",
    "_line",
    "_arrival",
    "_batch",
    "_feed",
    "_arrived_at",
)


def origin() -> Column:
    """The bronze columns a change keeps to the end, as one struct named `__origin`."""
    return F.struct(*_KEPT).alias(ORIGIN)


def fault(reason: str, message: Column | str) -> Column:
    """A dead letter's reason and message."""
    text = F.lit(message) if isinstance(message, str) else message
    return F.struct(F.lit(reason).alias("reason"), text.alias("message"))


def changes(
    decoded: DataFrame,
    columns: list[str],
    found: Column,
    parts: dict[str, Column],
    ignored: Sequence[str] = (),
) -> DataFrame:
    """The business columns and then the contract's; what `parts` does not give is null.

    `found` is the row's fault, null for a good change. A dead letter has no operation. All keep
    their raw record: the gate takes it off those that it passes. Without a time of its own a change
    has its record's, else that of its arrival. `ignored` are new columns that the table ignores.
    """
    parts = dict.fromkeys(_ASKED_FOR, F.lit(None)) | parts
    given = decoded.withColumns({"__fault": found, **{f"__{k}": v for k, v in parts.items()}})
    settled = {name: F.col(f"__{name}") for name in parts} | _of_origin() | _of_fault()
    contract = [
        settled.get(column.name, F.lit(None)).cast(column.type).alias(column.name)
        for column in CHANGE_COLUMNS
    ]
    settled_changes = given.select(*(F.col(quote(name)) for name in columns), *contract)
    if not ignored:
        return settled_changes
    shape = Shape(dict.fromkeys(ignored), complete=False)
    return noted(settled_changes, [shape])


def _of_origin() -> dict[str, Column]:
    origin = F.col(ORIGIN)
    same = ("_topic", "_partition", "_offset", "_arrival", "_feed")
    record = F.concat_ws("/", origin["_topic"], origin["_partition"], origin["_offset"])
    line = F.concat_ws(":", origin["_file"], origin["_line"])
    position = F.when(origin["_offset"].isNotNull(), record).otherwise(line)
    own = {name: origin[name] for name in same}
    return own | {"_feed_batch": origin["_batch"], "_position": position}


def _of_fault() -> dict[str, Column]:
    bad = F.col("__fault").isNotNull()
    moment = F.coalesce("___source_time", f"{ORIGIN}._timestamp", f"{ORIGIN}._arrived_at")
    return {
        "_operation": F.when(~bad, F.col("___operation")),
        "_absent": F.when(~bad, F.col("___absent")),
        "_source_time": moment,
        "_reason": F.col("__fault.reason"),
        "_message": F.col("__fault.message"),
        "_raw": F.col(f"{ORIGIN}._raw"),
    }
