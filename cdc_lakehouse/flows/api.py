"""`auto_cdc`, `auto_cdc_from_snapshot` and `decode_debezium`: AUTO CDC for any Spark, on Delta."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from typing_extensions import Unpack

from cdc_lakehouse.flows.batch import AutoCdcResult, FlowTarget
from cdc_lakehouse.flows.definition import (
    PREFIX,
    AutoCdcError,
    Condition,
    Definition,
    FlowOptions,
    HistoryOptions,
    ScdType,
)
from cdc_lakehouse.flows.tables import FlowTable
from lakehouse.durations import to_seconds
from lakehouse.storage.names import quote
from lakehouse.storage.statements import render_equal
from silver.storage.row_columns import all_of, column

Source: TypeAlias = DataFrame | str
Snapshots: TypeAlias = (
    Iterable[tuple[Any, DataFrame]] | Callable[[Any], tuple[DataFrame, Any] | None]
)
_VERSION, _GONE = "__snapshot_version", "__gone"


def auto_cdc(
    spark: SparkSession,
    source: Source,
    target: str,
    keys: Sequence[Condition],
    sequence_by: Condition | Sequence[Condition],
    **options: Unpack[FlowOptions],
) -> AutoCdcResult | StreamingQuery | None:
    """Applies changes to a Delta table so that it ends as it should, whatever order they come in.

    Args:
        spark: any session with Delta, classic or Connect.
        source: a DataFrame of changes, one row per change; a streaming one; or the name or path of
            a Delta table.
        target: a catalog name or a path; created where it is missing, with the source's columns.
            Beside it lie `TARGET_auto_cdc`, what the function knows of it, and
            `TARGET_dead_letters`.
        keys: the columns that identify a row.
        sequence_by: what orders the changes of a key: a column, a list of them, or an expression.
            Its type is a whole number, decimal, date, timestamp, text or a struct of these.
        **options: see `FlowOptions`.

    Returns:
        What became of the rows; of a streaming source the running query, which applies each change
        exactly once over restarts.

    Raises:
        AutoCdcError: the options contradict each other or the target, or a row is refused.
    """
    retention = options.get("tombstone_retention")
    kept = None if retention is None else to_seconds(retention)
    into = FlowTarget(spark, target, Definition.from_options(keys, sequence_by, options), kept)
    rows = FlowTable(spark, source).read() if isinstance(source, str) else source
    if rows.isStreaming:
        return _start_stream(rows, into, options)
    if not options.get("once"):
        return _apply_rows(into, rows, options)
    done = f"{PREFIX}once.{options.get('name') or target}"
    if into.state.table.exists and done in into.state.properties:
        return AutoCdcResult()
    result = _apply_rows(into, rows, options)
    into.state.table.set_properties({done: "true"})
    return result


def _apply_rows(into: FlowTarget, rows: DataFrame, options: FlowOptions) -> AutoCdcResult:
    return into.apply(rows, options.get("on_invalid", "dead_letters"), options.get("name"))


def _start_stream(rows: DataFrame, into: FlowTarget, options: FlowOptions) -> StreamingQuery:
    """Starts a stream; a batch that comes again after a crash is known by its changes."""
    place, definition, name = into.target.place, into.definition, options.get("name")
    retention = into.state.retention

    def take(part: DataFrame, _number: int) -> None:
        _apply_rows(FlowTarget(part.sparkSession, place, definition, retention), part, options)

    write = rows.writeStream.foreachBatch(take)
    write = write.queryName(name) if name else write
    write = write.trigger(availableNow=True) if options.get("once") else write
    return write.option("checkpointLocation", _find_checkpoint(into, options)).start()


def auto_cdc_from_snapshot(
    spark: SparkSession,
    source: Snapshots,
    target: str,
    keys: Sequence[Condition],
    stored_as_scd_type: ScdType = 1,
    mode: Literal["full", "delta"] = "full",
    **options: Unpack[HistoryOptions],
) -> list[AutoCdcResult]:
    """Applies snapshots of a source, oldest first: what differs from the one before is a change.

    Args:
        spark: any session with Delta, classic or Connect.
        source: pairs of a version and its DataFrame; or a function that takes the newest version
            that was applied (None before the first) and returns the next DataFrame and its version,
            or None, as in `create_auto_cdc_from_snapshot_flow`. Versions are whole numbers, dates,
            timestamps or texts. One that was applied before is passed over.
        target: a catalog name or a path.
        keys: the columns that identify a row.
        stored_as_scd_type: 1, or 2 with `__START_AT` and `__END_AT` as versions.
        mode: `full`: a row that a snapshot lacks is deleted. `delta`: it stays.
        **options: see `HistoryOptions`.

    Returns:
        A result per snapshot that was applied.

    Raises:
        AutoCdcError: the options contradict each other or the target.
    """
    if options.get("column_list") is None:
        left_out = [*(options.pop("except_column_list", None) or ()), _VERSION, _GONE]
        options["except_column_list"] = left_out
    fixed = {"apply_as_deletes": _GONE, "stored_as_scd_type": stored_as_scd_type}
    into = FlowTarget(spark, target, Definition.from_options(keys, _VERSION, {**options, **fixed}))
    return [
        into.apply(_find_changes(into, version, rows, mode))
        for version, rows in _list_new_snapshots(source, into)
    ]


def _find_checkpoint(into: FlowTarget, options: FlowOptions) -> str:
    given = options.get("checkpoint_location")
    if given is not None:
        return given
    if into.target.is_path:
        return f"{into.target.table_beside('_checkpoint').place}"
    text = "a stream into a table of a catalog needs checkpoint_location, a folder of its own."
    raise AutoCdcError("AUTOCDC_NO_CHECKPOINT", text)


def _list_new_snapshots(source: Snapshots, into: FlowTarget) -> Iterator[tuple[Any, DataFrame]]:
    """The snapshots that are newer than what was applied, oldest first."""
    newest = into.newest_sequence()
    if not callable(source):
        for version, rows in sorted(source, key=lambda pair: pair[0]):
            timed = isinstance(version, datetime)  # Spark gives the newest in local time
            shown = version.astimezone().replace(tzinfo=None) if timed else version
            if newest is None or shown > newest:
                yield version, rows
        return
    while (snapshot := source(newest)) is not None:
        rows, newest = snapshot
        yield newest, rows


def _find_changes(into: FlowTarget, version: object, rows: DataFrame, mode: str) -> DataFrame:
    """The rows of a snapshot that are new or differ, and the keys that it lacks."""
    keys = [*into.definition.keys]
    given = rows.withColumns({_VERSION: F.lit(version), _GONE: F.lit(False)})
    live = into.live_rows()
    if live is None:
        return given
    compared = into.definition.columns_of(given)
    live_types = {field.name: field.dataType for field in live.schema.fields}
    comparable = {f.name: f.dataType for f in compared} == live_types
    if comparable:
        there = live.select(*[column(c).alias(f"__{at}") for at, c in enumerate(live_types)])
        named = enumerate(live_types.items())
        same = [F.expr(render_equal(quote(c), f"__{at}", kind)) for at, (c, kind) in named]
        given = given.join(there, all_of(same), "left_anti")
    if mode == "delta":
        return given
    gone = live.select(*map(column, keys)).join(rows.select(*map(column, keys)), keys, "left_anti")
    marked = gone.withColumns({_VERSION: F.lit(version), _GONE: F.lit(True)})
    return given.unionByName(marked, allowMissingColumns=True)
