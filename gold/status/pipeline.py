"""The views `gold.pipeline_runs` and `gold.pipeline_status`, and the files of a table."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lakehouse.places.place import Place, list_folder, to_place
from lakehouse.run import ledger
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import literal, quote
from lakehouse.storage.views import View
from lakehouse.words import parse_columns

Record = Mapping[str, Any]


class Files(NamedTuple):
    """Of the newest version: data files, their bytes, deletion vectors."""

    files: int | None = None
    bytes: int | None = None
    deletion_vectors: int | None = None


def measure_files(lake: Lake, table: str) -> Files:
    """A silver table's files: from its newest checksum file, else from DESCRIBE DETAIL.

    The latter has deletion vectors on Databricks only. Unknown numbers are None, and so are all of
    a table that cannot be read.
    """
    folder = names.table_folder(lake.target, "silver", table)
    files = read_checksum(to_place(lake.target, folder, "_delta_log")) if folder else None
    return files or _describe_files(lake, table)


def read_checksum(log: Place) -> Files | None:
    """The checksum file of a transaction log's newest commit; None if there is none yet."""
    newest = max(
        (f.stem for f in list_folder(log) if f.suffix == ".json" and f.stem.isdigit()), default=""
    )
    file = log / f"{newest}.crc"
    try:
        numbers = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return Files(
        numbers.get("numFiles"), numbers.get("tableSizeBytes"), numbers.get("numDeletionVectorsOpt")
    )


def _describe_files(lake: Lake, table: str) -> Files:
    from lakehouse.spark.spark_failures import SPARK_FAILURES

    try:
        (detail,) = lake.ask(f"DESCRIBE DETAIL {lake.name('silver', table)}")
    except SPARK_FAILURES:
        return Files()
    more = detail.get("statistics") or {}
    vectors = more.get("numDeletionVectors")
    vector_count = None if vectors is None else int(vectors)
    return Files(detail.get("numFiles"), detail.get("sizeInBytes"), vector_count)


STATUS_COLUMNS = parse_columns("""
table | string | the table
rows | bigint | live rows that are applied
watermark | timestamp | newest commit time at the source that is applied, or shown from the change
    log
lag_seconds | bigint | age of the watermark; grows while the source is silent
staleness_seconds | bigint | how long the oldest change that is not applied has waited; 0 if none is
max_staleness_seconds | bigint | the table's max_staleness; null where it has none
waiting_since | timestamp | when the oldest change that is not applied came; null if none waits
stale | boolean | whether a change has waited for longer than max_staleness
pending_changes | bigint | decoded records that are not applied
waiting_transactions | bigint | transactions that wait for the other tables of their group
dead_letters | bigint | unresolved dead letters that nobody has acknowledged
dead_letters_acknowledged | bigint | unresolved dead letters that somebody has acknowledged
dead_letter_reasons | map<string,bigint> | those that nobody has acknowledged, by reason
dead_letters_alert | boolean | whether `dead_letters` is more than max_dead_letters
stale_keys | bigint | keys whose newest change is a dead letter: gold shows an older one, or hides
    it
stale_keys_since | timestamp | since when the first stale key is stale
drift | bigint | schema changes of the last 7 days
gaps | bigint | open gaps in the source
files | bigint | data files when they were last measured
bytes | bigint | size of the data files when they were last measured
deletion_vectors | bigint | deletion vectors when they were last measured; null where not known
apply_p95_seconds | double | 95th percentile of what a run spends on the table, of the last 7 days
recommended_max_staleness_minutes | bigint | twice this p95 in minutes, plus 7
applied_batch | bigint | newest batch of the change log that is applied
published_batch | bigint | newest applied batch that the published table shows; null where the
    table is not published
last_run | timestamp | end of the last run that had something to do
last_failure | string | why the last work on a layer of the table failed; null where no layer's did
checked_at | timestamp | the time of the query
""")
STATUS = {name: text for name, _, text in STATUS_COLUMNS}


STATUS_VIEW = "pipeline_status"
_AGES = {
    "lag_seconds": "timestampdiff(SECOND, watermark, current_timestamp())",
    "staleness_seconds": (
        "coalesce(timestampdiff(SECOND, waiting_since, current_timestamp()), 0L)"
    ),
    "stale": "coalesce(staleness_seconds > max_staleness_seconds, false)",
    "drift": (
        "CAST(size(filter(drifts, at -> at > current_timestamp() - INTERVAL 7 DAYS)) AS bigint)"
    ),
    "checked_at": "current_timestamp()",
}
"""The columns that change by themselves: a query computes them."""


def build_runs_view(ledger_name: str | None) -> View:
    """`gold.pipeline_runs`: what every run did to every table; without a ledger it has no rows."""
    shown: dict[str, str | None] = {c: text for c, _, text in ledger.COLUMNS if c != ledger.STATE}
    nothing = ", ".join(f"CAST(NULL AS {kind}) AS {quote(c)}" for c, kind, _ in ledger.COLUMNS)
    entries = ledger_name or f"(SELECT {nothing} WHERE false)"
    query = f"SELECT {', '.join(map(quote, shown))} FROM {entries} WHERE status <> 'begun'"
    comment = "what every run did to every table"
    return View("pipeline_runs", shown, comment, ("run_id", "layer", "table"), query)


def build_status_view(records: Sequence[Record]) -> View:
    """`gold.pipeline_status`: the status records as a command left them, with ages as of a query.

    A pipeline that has stopped so looks as late as it is.
    """
    kept = {name: kind for name, kind, _ in STATUS_COLUMNS if name not in _AGES}
    fields = ", ".join(f"{quote(name)}: {kind}" for name, kind in kept.items())
    rows = json.dumps([_to_row(record, kept) for record in records], ensure_ascii=False)
    types = literal(f"array<struct<{fields}, drifts: array<timestamp>>>")
    columns = [f"{_AGES[c]} AS {quote(c)}" if c in _AGES else quote(c) for c in STATUS]
    known = f"SELECT inline(from_json({literal(rows)}, {types}))"
    query = f"SELECT {', '.join(columns)} FROM ({known})"
    comment = "how every table does, as the last command left it, with ages as of now"
    return View(STATUS_VIEW, {**STATUS}, comment, ("table",), query)


def _to_row(record: Record, names: Iterable[str]) -> Record:
    totals = {
        "dead_letters": record["dead_letters_total"],
        "dead_letter_reasons": record["dead_letters"],
        "gaps": len(record["gaps"]),
        "drifts": [change["at"] for change in record["drift"]],
    }
    return {name: record[name] for name in names if name not in totals} | totals
