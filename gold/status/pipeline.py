"""The SQL of the views `gold.pipeline_runs` and `gold.pipeline_status`.

The status is a view, so that a pipeline that has stopped looks as late as it is, and publishing it
runs no Spark job. Only the numbers of files are those of the last publication.
"""

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lakehouse.places.place import Place, list_folder, to_place
from lakehouse.run import ledger
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import literal, quote
from lakehouse.storage.views import View
from lakehouse.words import parse_columns
from silver.contract import GROUP_TYPE, SCHEMA_CHANGES_TYPE


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


P95_WINDOW = "INTERVAL 7 DAYS"
DRIFT_WINDOW = "INTERVAL 7 DAYS"

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
files | bigint | data files at the last publication
bytes | bigint | size of the data files at the last publication
deletion_vectors | bigint | deletion vectors at the last publication; null where not known
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


class TableFacts(NamedTuple):
    """What the status query of a table reads: SQL names, None for what does not exist yet.

    `live` is the condition of a row that gold shows, `stale` the query of its stale keys; `shown`
    says that gold shows pending changes too.
    """

    table: str
    live: str
    max_staleness: int | None = None
    current: str | None = None
    log: str | None = None
    letters: str | None = None
    files: Files = Files()
    stale: str | None = None
    max_dead_letters: int | None = None
    shown: bool = False


class Sources(NamedTuple):
    """SQL names of what is kept over all tables; None for what does not exist."""

    ledger: str | None
    gaps: str | None = None
    acknowledged: str | None = None


def build_runs_view(sources: Sources) -> View:
    """`gold.pipeline_runs`: what every run did to every table in every layer."""
    described = ((column, text) for column, _, text in ledger.COLUMNS if column != ledger.STATE)
    shown: dict[str, str | None] = dict(described)
    listed = ", ".join(quote(c) for c in shown)
    query = f"SELECT {listed} FROM {_ledger_sql(sources)} AS ledger WHERE status <> 'begun'"
    comment = "what every run did to every table"
    return View("pipeline_runs", shown, comment, ("run_id", "layer", "table"), query)


def build_status_view(tables: Sequence[TableFacts], sources: Sources) -> View:
    """`gold.pipeline_status`: one row per table."""
    columns = ", ".join(quote(column) for column in STATUS)
    newest = ledger.newest_states_sql(_ledger_sql(sources))
    parts = {
        "known": _select_tables(tables),
        "runs": _select_runs(sources),
        "published": _select_published(sources),
        "failures": _select_failures(sources),
        "failing": _select_failing(sources),
        "held": _select_held(tables),
        "logged": _select_logged(tables),
        "letters": _select_letters(tables, sources),
        "outdated": _select_stale(tables),
        # The consistency group and the schema changes in each table's newest state.
        "states": f"SELECT `table`, {STATE} AS of FROM ({newest})",
        "drifts": DRIFTS,
        "holes": _select_gaps(sources),
        "waits": WAITS,
    }
    steps = ",\n".join(f"{name} AS ({text})" for name, text in parts.items())
    query = f"WITH {steps}\nSELECT {columns} FROM ({_JOINED})"
    comment = "how every table does, as of now"
    return View("pipeline_status", {**STATUS}, comment, ("table",), query)


_JOINED = """SELECT known.*, coalesce(held.rows, 0L) AS rows,
 logged.newest AS watermark,
 dead_letter_reasons, applied_batch, published_batch, last_run, last_failure,
 apply_p95_seconds,
 current_timestamp() AS checked_at,
 timestampdiff(SECOND, logged.newest, current_timestamp()) AS lag_seconds,
 least(logged.since, failing.since) AS waiting_since,
 coalesce(timestampdiff(SECOND, waiting_since, current_timestamp()), 0L) AS staleness_seconds,
 coalesce(staleness_seconds > max_staleness_seconds, false) AS stale,
 coalesce(logged.n, 0L) AS pending_changes, coalesce(waits.n, 0L) AS waiting_transactions,
 coalesce(letters.n, 0L) AS dead_letters,
 coalesce(letters.known, 0L) AS dead_letters_acknowledged,
 coalesce(letters.n > max_dead_letters, false) AS dead_letters_alert,
 coalesce(outdated.n, 0L) AS stale_keys, outdated.since AS stale_keys_since,
 coalesce(drifts.n, 0L) AS drift,
 coalesce(holes.n, 0L) AS gaps,
 CAST(ceil(apply_p95_seconds * 2 / 60) + 7 AS bigint) AS recommended_max_staleness_minutes
 FROM known LEFT JOIN held USING (`table`) LEFT JOIN runs USING (`table`)
 LEFT JOIN published USING (`table`)
 LEFT JOIN failures USING (`table`) LEFT JOIN failing USING (`table`)
 LEFT JOIN logged USING (`table`) LEFT JOIN letters USING (`table`)
 LEFT JOIN outdated USING (`table`) LEFT JOIN drifts USING (`table`)
 LEFT JOIN holes USING (`table`) LEFT JOIN waits USING (`table`)"""


def _select_tables(tables: Sequence[TableFacts]) -> str:
    columns = "`table`, max_staleness_seconds, max_dead_letters, files, bytes, deletion_vectors"
    rows = ", ".join(
        f"({literal(t.table)}, {_render_bigint(t.max_staleness)},"
        f" {_render_bigint(t.max_dead_letters)}, {_render_bigint(t.files.files)},"
        f" {_render_bigint(t.files.bytes)}, {_render_bigint(t.files.deletion_vectors)})"
        for t in tables
    )
    return f"SELECT * FROM (VALUES {rows}) AS known({columns})"


def _render_bigint(number: int | None) -> str:
    return "CAST(NULL AS bigint)" if number is None else f"{number}L"


def _select_runs(sources: Sources) -> str:
    """Silver's runs by table. Those that left all changes pending do not count for the p95.

    The recommended promise is BigQuery's: twice the p95, and 7 minutes.
    """
    waits = "coalesce(counts['pending'], 0L)"
    ok = f"status = 'ok' AND {waits} <= 0 AND counts['records'] - {waits} > 0"
    recent = f"{ok} AND started_at > current_timestamp() - {P95_WINDOW}"
    return (
        "SELECT `table`, max(if(status = 'ok', batch, NULL)) AS applied_batch,"
        " max(if(status = 'ok', ended_at, NULL)) AS last_success, max(ended_at) AS last_run,"
        f" round(percentile(if({recent}, duration_ms, NULL), 0.95) / 1000, 3) AS apply_p95_seconds"
        f" FROM {_ledger_sql(sources)} WHERE layer = 'silver' GROUP BY `table`"
    )


def _select_published(sources: Sources) -> str:
    return (
        "SELECT `table`, max_by(batch, ended_at) AS published_batch"
        f" FROM {_ledger_sql(sources)} WHERE layer = 'gold' AND batch IS NOT NULL GROUP BY `table`"
    )


def _select_failures(sources: Sources) -> str:
    """The newest of the layers' failures that no later work on the same layer has mended."""
    newest = (
        "SELECT `table`, layer, max(ended_at) AS ended_at, max_by(message, ended_at) AS message"
        f" FROM {_ledger_sql(sources)} AS ledger WHERE status <> 'begun' GROUP BY `table`, layer"
    )
    text = "if(layer = 'silver', message, concat(layer, ': ', message))"
    return (
        f"SELECT `table`, max_by({text}, ended_at) AS last_failure"
        f" FROM ({newest}) WHERE message IS NOT NULL GROUP BY `table`"
    )


def _select_failing(sources: Sources) -> str:
    return (
        "SELECT entries.`table`, min(entries.started_at) AS since"
        f" FROM {_ledger_sql(sources)} AS entries JOIN runs ON entries.`table` = runs.`table`"
        " WHERE entries.layer = 'silver' AND entries.status = 'failed'"
        " AND (last_success IS NULL OR entries.ended_at > last_success)"
        " GROUP BY entries.`table`"
    )


def _select_held(tables: Sequence[TableFacts]) -> str:
    rows = _union_tables(
        tables, lambda t: t.current and f"{t.live} AS live FROM {t.current}", "false AS live"
    )
    return f"SELECT `table`, count_if(live) AS rows FROM ({rows}) GROUP BY `table`"


def _select_logged(tables: Sequence[TableFacts]) -> str:
    """Pending rows and since when their file was written; the newest commit that gold shows.

    Rows that gold shows from the change log do not wait: they have no `at`.
    """
    none, came = "CAST(NULL AS timestamp)", "_metadata.file_modification_time"

    def select_log(table: TableFacts) -> str | None:
        at = none if table.shown else came
        sound = "if(_reason IS NULL, _source_time, NULL) AS committed"
        return table.log and f"_batch, {at} AS at, {sound}, {table.shown} AS shown FROM {table.log}"

    rows = _union_tables(
        tables, select_log, f"0L AS _batch, {none} AS at, {none} AS committed, false AS shown"
    )
    pending = "_batch > coalesce(applied_batch, 0)"
    return (
        f"SELECT logged.`table`, count_if({pending}) AS n, min(if({pending}, at, NULL)) AS since,"
        f" max(if({pending} AND NOT shown, NULL, committed)) AS newest"
        f" FROM ({rows}) AS logged LEFT JOIN runs ON logged.`table` = runs.`table`"
        " GROUP BY logged.`table`"
    )


def _select_letters(tables: Sequence[TableFacts], sources: Sources) -> str:
    acknowledged, noted = "false", ""
    if sources.acknowledged is not None:
        acknowledged = "noted.known IS NOT NULL"
        noted = (
            f" LEFT JOIN (SELECT DISTINCT _feed, _arrival, true AS known FROM"
            f" {sources.acknowledged}) AS noted USING (_feed, _arrival)"
        )
    rows = _union_tables(
        tables,
        lambda t: (
            t.letters
            and f"reason, {acknowledged} AS known FROM {t.letters} AS letters{noted}"
            " WHERE resolved_at IS NULL"
        ),
        "'' AS reason, false AS known",
    )
    return (
        "SELECT `table`, sum(if(known, 0L, n)) AS n, sum(if(known, n, 0L)) AS known,"
        f" {REASONS} AS dead_letter_reasons"
        f" FROM (SELECT `table`, reason, known, count(*) AS n FROM ({rows})"
        " GROUP BY `table`, reason, known) GROUP BY `table`"
    )


REASONS = "map_from_entries(collect_list(if(known, NULL, struct(reason, n))))"


def _select_stale(tables: Sequence[TableFacts]) -> str:
    return _union_tables(
        tables,
        lambda t: t.stale and f"count(*) AS n, min(since) AS since FROM ({t.stale})",
        "0L AS n, current_timestamp() AS since",
    )


def _select_gaps(sources: Sources) -> str:
    """The open gaps of each table."""
    if sources.gaps is None:
        return "SELECT '' AS `table`, 0L AS n WHERE false"
    counted = f"SELECT `table`, count(*) AS n FROM {sources.gaps}"
    return f"{counted} WHERE resolved_at IS NULL GROUP BY `table`"


STATE = f"from_json(state, {literal(f'{GROUP_TYPE}, {SCHEMA_CHANGES_TYPE}')})"
DRIFTS = (
    "SELECT `table`, count_if(change.at > current_timestamp() - "
    f"{DRIFT_WINDOW}) AS n FROM states LATERAL VIEW explode(of.schema_changes) c AS change"
    " GROUP BY `table`"
)

WAITS = (
    "SELECT `table`, count(*) AS n FROM (SELECT explode(map_keys(transaction.records)) AS `table`"
    " FROM (SELECT explode(max_by(of.group.waiting, of.group.number)) AS transaction FROM states"
    " WHERE of.group.name IS NOT NULL GROUP BY of.group.name)) GROUP BY `table`"
)
"""The number of each table's waiting transactions, as of the newest run of its group."""


def _union_tables(
    tables: Sequence[TableFacts], asked: Callable[[TableFacts], str | None], empty: str
) -> str:
    """The union of the tables' queries, with their names; `empty`, of no row, if none has one."""
    queries = [(t.table, asked(t)) for t in tables]
    each = [f"SELECT {literal(name)} AS `table`, {what}" for name, what in queries if what]
    return " UNION ALL ".join(each) or f"SELECT '' AS `table`, {empty} WHERE false"


def _ledger_sql(sources: Sources) -> str:
    if sources.ledger:
        return sources.ledger
    columns = ", ".join(f"CAST(NULL AS {kind}) AS {quote(c)}" for c, kind, _ in ledger.COLUMNS)
    return f"(SELECT {columns} WHERE false)"
