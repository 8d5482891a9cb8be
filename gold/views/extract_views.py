"""`gold.T_changes` of a snapshot table: every operation of every snapshot file.

The change log keeps the values of rows that a snapshot file changed, and only the keys of unchanged
ones. Here D and N rows get the values that the key had then, and X rows, which are not stored, are
computed: keys that were live when a delta file had no row of theirs.
"""

from collections.abc import Sequence

from gold.views import empty
from gold.views.catalog import columns_of
from gold.views.selects import list_comments, renamed_comments, select_shown, source_names
from lakehouse.config.table import Table
from lakehouse.config.target import Sensitive, Target
from lakehouse.run import ledger
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import literal, quote
from lakehouse.storage.views import View
from silver.contract import DAYS_TYPE, kept_name

LETTERS = (
    "I new, U changed, D missing from a full snapshot file, X not supplied in a delta, N unchanged"
)
LETTER_COLUMNS = (
    ("operation", "string", LETTERS),
    ("effective_date", "date", "business effective date of the snapshot file"),
)
DIGEST_COLUMN = ("key_digest", "string", "SHA-256 of the key columns")
_DAY = "date_from_unix_date(CAST(conv(_sequence, 16, 10) AS INT))"


def build_snapshot_views(lake: Lake, table: Table) -> list[View]:
    """The views that only a snapshot table has; none before silver holds it."""
    log = f"{table.table}_changes"
    if table.format != "snapshot" or not lake.exists("silver", log):
        return []
    log_name = lake.name("silver", log)
    columns = [c for c in columns_of(lake, log) if not c.startswith("_")]
    views = [
        build_changes(
            table, log_name, _days_sql(lake.target, table), columns, lake.target.sensitive
        )
    ]
    kept = kept_name(table)
    separate = lake.target.sensitive == "separate" and any(map(table.is_sensitive, columns))
    if separate and lake.exists("silver", kept):
        views.append(sensitive_values(table, lake.name("silver", kept), columns))
    return views


def build_empty_views(target: Target, table: Table) -> list[View]:
    """The views that only a snapshot table has, before its first file, without sensitive values."""
    if table.format != "snapshot":
        return []
    log, extracts, columns = empty.no_log(table), empty.no_extracts(), empty.list_declared(table)
    return [build_changes(table, log, extracts, columns, target.sensitive)]


def _days_sql(target: Target, table: Table) -> str:
    """SQL of the dates that were compared, as the table's newest state has them."""
    newest = ledger.newest_state_sql(names.table_name(target, "silver", ledger.TABLE), table.table)
    days = f"from_json(state, {literal(DAYS_TYPE)}).days"
    return f"(SELECT inline({days}) FROM ({newest}))"


def build_changes(
    table: Table, log: str, extracts: str, columns: Sequence[str], sensitive: Sensitive = "hash"
) -> View:
    """The view over SQL of silver's change log and of the dates that were compared."""
    parts = [_select_carried(table, columns, log)]
    if any(feed.mode == "delta" for feed in table.feeds):
        parts.append(_not_supplied(table, columns, log, extracts))
    added: dict[str, str | None] = {name: text for name, _, text in LETTER_COLUMNS}
    chosen = select_shown(table, columns, sensitive)
    called = source_names(list(chosen), added)
    values = [f"{text} AS {quote(called[c])}" for c, text in chosen.items()]
    rows = " UNION ALL ".join(parts)
    added_values = [f"_{name} AS {name}" for name in added]
    query = f"SELECT {', '.join([*values, *added_values])} FROM ({rows})"
    described = renamed_comments(table, called) | added
    keys = tuple(called[key] for key in table.keys if key in chosen)
    comment = f"what every snapshot file said of every key of {table.table}"
    return View(f"{table.table}_changes", described, comment, (*keys, "effective_date"), query)


def _select_carried(table: Table, columns: Sequence[str], log: str) -> str:
    """The log's rows, with the values that their keys had then."""
    values = ", ".join(f"_row.{quote(c)}" if c not in table.keys else quote(c) for c in columns)
    keys = _quote_all(table.keys)
    row = f"named_struct({', '.join(f'{literal(c)}, {quote(c)}' for c in columns)})"
    newest = (
        f"last_value(CASE WHEN _operation = 'upsert' THEN {row} END, true)"
        f" OVER (PARTITION BY {keys} ORDER BY _sequence)"
    )
    rows = (
        f"SELECT {keys}, _letter, _sequence, {newest} AS _row FROM {log} WHERE _letter IS NOT NULL"
    )
    return f"SELECT {values}, _letter AS _operation, {_DAY} AS _effective_date FROM ({rows})"


def _not_supplied(table: Table, columns: Sequence[str], log: str, extracts: str) -> str:
    """Keys that were live when a delta file had no row of theirs, not even a rejected one."""
    same_key = names.agree_on("s", "v", table.keys, table.nullable_keys)
    order = f"PARTITION BY {_quote_all(table.keys)} ORDER BY _sequence"
    versions = (
        f"SELECT {_quote_all(columns)}, _operation, _sequence,"
        f" lead(_sequence) OVER ({order}) AS _until FROM {log}"
        " WHERE _letter IS NOT NULL AND _operation <> 'none'"
    )
    days = (
        "SELECT effective_date, lpad(hex(unix_date(effective_date)), 16, '0') AS _day"
        f" FROM {extracts} WHERE mode = 'delta' AND batch > 0 AND effective_date IS NOT NULL"
    )
    values = ", ".join(f"v.{quote(c)}" for c in columns)
    return (
        f"SELECT {values}, 'X' AS _operation, e.effective_date AS _effective_date"
        f" FROM ({versions}) v"
        f" JOIN ({days}) e ON e._day > v._sequence AND (v._until IS NULL OR e._day < v._until)"
        f" LEFT ANTI JOIN {log} s ON s._sequence = e._day AND {same_key}"
        " WHERE v._operation = 'upsert'"
    )


def _quote_all(columns: Sequence[str]) -> str:
    return ", ".join(quote(c) for c in columns)


def sensitive_values(table: Table, kept: str, columns: Sequence[str]) -> View:
    """`gold.T_sensitive`: what gold.T leaves out, by the digest of the key.

    `kept` is the SQL name of silver's current table or history.
    """
    hidden = [c for c in columns if table.is_sensitive(c)]
    open_keys = [key for key in table.keys if key not in hidden]
    live = "_is_current" if table.stored_as_scd_type == 2 else "NOT _deleted"
    query = (
        f"SELECT {_digest_key(table.keys)} AS {DIGEST_COLUMN[0]},"
        f" {_quote_all([*open_keys, *hidden])} FROM {kept} WHERE {live}"
    )
    digest: dict[str, str | None] = {DIGEST_COLUMN[0]: DIGEST_COLUMN[2]}
    described = digest | list_comments(table, [*open_keys, *hidden])
    comment = f"sensitive columns of {table.table}, by the digest of the key"
    return View(f"{table.table}_sensitive", described, comment, (DIGEST_COLUMN[0],), query)


def _digest_key(keys: Sequence[str]) -> str:
    """SQL of the SHA-256 of a key, in which each value that is not null has its length in front."""
    texts = [f"CAST({quote(key)} AS STRING)" for key in keys]
    parts = [f"coalesce(concat(length({text}), ':', {text}), '-')" for text in texts]
    return f"sha2(concat({', '.join(parts)}), 256)"
