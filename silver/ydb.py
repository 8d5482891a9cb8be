"""YDB's changefeed records in JSON, in every mode.

A record has exactly one of the flags `update`, `reset` (REPLACE: what it does not set is null) and
`erase`. What a row becomes is in `newImage`, or in the flag's own object in mode UPDATES, which
for `update` holds changed columns only. The modes OLD_IMAGE and KEYS_ONLY tell of an update but not
what it wrote: those updates are dead letters, their erases can be applied. Key columns are known by
their place in `key` alone. Barriers (`resolved`) and schema records are no changes. String (bytes)
values are base64.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.table import Table
from silver.changes import ORIGIN, changes, fault, origin
from silver.contract import DELETE, NONE, UPSERT
from silver.flat import Rows, absent, lacking, names_array, rows
from silver.json_text import elements, is_object, member, object_members
from silver.presence import nulls_to_ignore
from silver.sequence import join, literal, section
from silver.times import from_count

_MEMBERS = ("key", "update", "reset", "erase", "newImage", "oldImage", "ts", "resolved")
_FLAGS = ("__update", "__reset", "__erase")
_UNKNOWN_VALUES = (
    "update without its new values (a changefeed in mode OLD_IMAGE or KEYS_ONLY): it says that the "
    "row changed but not to what, expected mode UPDATES, NEW_IMAGE or NEW_AND_OLD_IMAGES"
)


def to_changes(raw: DataFrame, table: Table) -> DataFrame:
    """Decode records; see `silver.contract` for what comes out."""
    found = rows(_documents(raw), table, {}, F.col("__key"))
    stamped = found._replace(frame=found.frame.select("*", *_stamps(table)))
    parts = {
        "_operation": _operation(),
        "_sequence": F.col("__sequence"),
        "_absent": F.when(_is_update(), _absent(found, table)),
        "_source_time": from_count(_number(F.col("__moment"), 0).cast("bigint")),
        "_transaction": F.array_join(F.col("__moment"), "/"),
    }
    return changes(stamped.frame, stamped.columns, _fault(table), parts, found.ignored)


def _documents(raw: DataFrame) -> DataFrame:
    inside = F.coalesce(F.col("_whole"), F.lit(False))
    value = F.when(inside, member(F.col("_raw"), "value")).otherwise(F.col("_raw"))
    around = F.when(inside, is_object(F.col("_raw"))).otherwise(F.lit(True))
    records = raw.select(origin(), value.alias("__value"), around.alias("__around"))
    record = object_members(F.col("__value"), dict.fromkeys(_MEMBERS, T.StringType()))
    inner = F.when(F.col("__value").isNull(), F.lit(True)).otherwise(is_object(F.col("__value")))
    sound = F.col("__around") & inner
    opened = records.select("*", record.alias("__record"), sound.alias("__ok"))
    members = (F.col("__record").getField(name).alias(f"__{name}") for name in _MEMBERS)
    written = F.coalesce("__newImage", "__reset", "__update")
    document = F.when(_is_update(), written).alias("__document")
    return opened.select(ORIGIN, "__value", "__ok", *members).select("*", document)


def _is_update() -> Column:
    return F.coalesce("__update", "__reset").isNotNull() & F.col("__erase").isNull()


def _stamps(table: Table) -> list[Column]:
    moment = elements(F.coalesce("__ts", "__resolved"), T.StringType())
    stamp = F.when(F.size(moment) == 2, join(*(section(_number(moment, n)) for n in (0, 1))))
    by_offset = section(F.coalesce(f"{ORIGIN}._offset", F.lit(0)))
    unmarked = F.coalesce("__ts", "__resolved").isNull()
    sequence = F.when(unmarked, by_offset).otherwise(stamp)
    early = reduce(lambda one, other: one | other, _earlier(table, sequence), F.lit(False))
    idle = F.col("__value").isNull() | _is_no_change() | F.coalesce(early, F.lit(False))
    ignored = (F.col("__ok") & idle).alias("__ignored")
    return [moment.alias("__moment"), sequence.alias("__sequence"), ignored]


def _earlier(table: Table, sequence: Column) -> list[Column]:
    return [
        (sequence < literal(feed.start_sequence))
        & (F.lit(feed.topic is None) | (F.col(f"{ORIGIN}._topic") == feed.topic))
        for feed in table.feeds
        if feed.start_sequence is not None
    ]


def _is_no_change() -> Column:
    """A barrier, or a record that tells of the table's schema and of no row."""
    names = F.coalesce(F.json_object_keys("__value"), names_array([]))
    of_schema = F.exists(names, lambda name: F.lower(name).rlike("schema|^tablechange"))
    of_row = F.coalesce("__key", *_FLAGS, "__newImage", "__oldImage").isNotNull()
    return (F.col("__resolved").isNotNull() | of_schema) & ~of_row


def _number(parts: Column, place: int) -> Column:
    text = F.get(parts, place)
    return F.when(text.rlike(r"\A\d+\z"), text.try_cast("decimal(20,0)"))


def _operation() -> Column:
    change = F.when(F.col("__erase").isNotNull(), DELETE).otherwise(UPSERT)
    return F.when(F.col("__ignored"), NONE).otherwise(change)


def _absent(found: Rows, table: Table) -> Column:
    complete = F.coalesce("__newImage", "__reset").isNotNull()
    not_written = F.when(complete, names_array([])).otherwise(lacking(found.columns))
    return absent(found.columns, table.keys, not_written, nulls_to_ignore(table, found.columns))


def _fault(table: Table) -> Column:
    flags = sum((F.col(flag).isNotNull().cast("int") for flag in _FLAGS), F.lit(0))
    many = F.concat(
        flags.cast("string"), F.lit(" of update, reset and erase, expected exactly one")
    )
    checks = (
        F.when(~F.col("__ok"), fault("not_json", "the record is no JSON object")),
        F.when(flags != 1, fault("illegal_change", many)),
        F.when(~_is_empty("__erase"), fault("illegal_change", "an erase that is not {}")),
        _key_fault(table),
        F.col("__key_fault"),
        F.when(_is_without_values(table), fault("illegal_change", _UNKNOWN_VALUES)),
        F.when(_is_update() & ~F.col("__whole"), fault("illegal_change", "columns in no object")),
        F.col("__value_fault"),
        F.when(F.col("__sequence").isNull(), fault("bad_sequence", _wrong_moment())),
    )
    return F.when(~F.col("__ignored"), F.coalesce(*checks))


def _is_empty(name: str) -> Column:
    return F.coalesce(F.size(F.json_object_keys(name)) == 0, F.col(name).isNull())


def _key_fault(table: Table) -> Column:
    parts = F.size(elements(F.col("__key"), T.StringType()))
    names = f", expected the {len(table.keys)} of {', '.join(table.keys)}"
    wrong = F.concat(F.lit("key with "), parts.cast("string"), F.lit(f" components{names}"))
    missing = F.coalesce(parts, F.lit(0)) <= 0
    return F.when(missing, fault("no_key", f"key: missing or empty{names}")).when(
        parts != len(table.keys), fault("bad_value", wrong)
    )


def _is_without_values(table: Table) -> Column:
    if table.columns and set(table.columns) <= set(table.keys):
        return F.lit(False)
    only_flag = F.coalesce("__newImage", "__reset").isNull()
    return _is_update() & only_flag & _is_empty("__update")


def _wrong_moment() -> Column:
    found = F.coalesce("__ts", "__resolved")
    offset = F.concat(F.lit("offset: found "), f"{ORIGIN}._offset", F.lit(", expected one from 0"))
    return F.coalesce(
        F.concat(F.lit("ts: found "), found, F.lit(", expected [step, txId]")), offset
    )
