"""PostgreSQL's side of a comparison: texts and digests computed by the database itself."""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, text

from gold.source_check.plan import BUCKETS, ComparedColumn, ComparisonPlan, ExactRow
from gold.source_check.texts import Kind

PARTS = 8
"""How many queries digest the table, one part of the keys each; each one's result is kept."""

_MOMENT = "'YYYY-MM-DD\"T\"HH24:MI:SS.US'"
_DIGITS = "'9.99999999999999EEEE'"
_FLOAT = (
    "CASE WHEN {q}::text IN ('NaN', 'Infinity', '-Infinity') THEN {q}::text"
    f" ELSE trim(to_char({{q}}::float8, {_DIGITS})) END"
)
_INTERVAL = (
    "((extract(year FROM {q}) * 12 + extract(month FROM {q})) * 2629800000000"
    " + extract(day FROM {q}) * 86400000000 + extract(hour FROM {q}) * 3600000000"
    " + extract(minute FROM {q}) * 60000000 + extract(second FROM {q}) * 1000000)::bigint::text"
)
_CLOCK = "((extract(epoch FROM {q}) * 1000000)::bigint"
_TEXTS: dict[Kind, str] = {
    "number": "trim_scale({q}::numeric)::text",
    "float": _FLOAT,
    "real": _FLOAT,
    "bool": "({q}::text IN ('true', '1'))::text",
    "padded": "rtrim({q}::text)",
    "bytes": "encode({q}, 'hex')",
    "bits": "ltrim({q}::text, '0')",
    "date": "{q}::text",
    "timestamp": f"to_char({{q}}, {_MOMENT})",
    "timestamptz": f"to_char({{q}} AT TIME ZONE 'UTC', {_MOMENT})",
    "time": f"{_CLOCK})::text",
    "timetz": f"({_CLOCK} % 86400000000 + 86400000000) % 86400000000)::text",
    "interval": _INTERVAL,
    "json": "{q}::text",
    "array": "array_to_json({q})::text",
    "text": "format('%s', {q})",
}


def read_columns(connection: Connection, schema: str, table: str) -> dict[str, str]:
    """The table's columns and their types as PostgreSQL writes them."""
    listed = connection.execute(
        text(
            "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a"
            " JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = :schema AND c.relname = :table AND a.attnum > 0"
            " AND NOT a.attisdropped ORDER BY a.attnum"
        ),
        {"schema": schema, "table": table},
    )
    return {row[0]: row[1] for row in listed}


def pin_state(connection: Connection) -> None:
    """Makes everything that is read from now on one state of the database."""
    connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
    for setting in ("datestyle = 'ISO'", "timezone = 'UTC'", "extra_float_digits = 1"):
        connection.execute(text(f"SET LOCAL {setting}"))


def read_bucket_digests(
    connection: Connection, plan: ComparisonPlan, part: range
) -> dict[int, tuple[int, int]]:
    """Of each bucket of a part the number of rows and the sum of their digests."""
    sums = connection.execute(
        text(
            f"SELECT {_BUCKET} AS b, count(*), sum({_render_number('d', 15, 60)})"
            f" FROM ({_select_digests(plan)}) r"
            f" WHERE {_BUCKET} BETWEEN :first AND :last GROUP BY 1"
        ),
        {"first": part[0], "last": part[-1]},
    )
    return {row[0]: (row[1], int(row[2])) for row in sums}


def read_row_digests(
    connection: Connection, plan: ComparisonPlan, chosen: Sequence[int]
) -> Iterator[tuple[str, str]]:
    """Key and content of each row in the chosen buckets, as digests."""
    query = text(f"SELECT k, d FROM ({_select_digests(plan)}) r WHERE {_BUCKET} = ANY(:chosen)")
    for row in connection.execute(query, {"chosen": list(chosen)}):
        yield row[0], row[1]


def read_exact(
    connection: Connection, plan: ComparisonPlan, ids: Sequence[str]
) -> Iterator[ExactRow]:
    """The rows of these keys, each with the transaction that wrote it."""
    chosen = ", ".join(_render_exact(c) for c in plan.columns)
    query = text(
        f"SELECT {_digest_key(plan)}, xmin::text, {chosen} FROM {plan.source} t"
        f" WHERE {_digest_key(plan)} = ANY(:ids)"
    )
    for row in connection.execute(query, {"ids": list(ids)}):
        yield ExactRow(row[0], tuple(row[2:]), row[1])


def read_position(connection: Connection) -> int:
    """How far the write-ahead log has come: every change that is visible lies before it."""
    return int(
        connection.execute(
            text("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint")
        ).scalar_one()
    )


def read_progress(connection: Connection) -> tuple[str, int]:
    """The next transaction's number, and how far every logical slot's reader has come."""
    query = (
        "SELECT pg_snapshot_xmax(pg_current_snapshot())::text,"
        " coalesce(min((confirmed_flush_lsn - '0/0'::pg_lsn)::bigint), 0)"
        " FROM pg_replication_slots WHERE database = current_database()"
    )
    row = connection.execute(text(query)).one()
    return row[0], row[1]


def position_text(place: int) -> str:
    """A position as PostgreSQL writes it."""
    return f"{place >> 32:X}/{place & 0xFFFFFFFF:X}"


def _select_digests(plan: ComparisonPlan) -> str:
    digests = f"{_digest_key(plan)} AS k, md5({_join_texts(plan.columns)}) AS d"
    return f"SELECT {digests} FROM {plan.source} t"


def _digest_key(plan: ComparisonPlan) -> str:
    """The digest that identifies a row; of a table without a key, of the whole row."""
    return f"md5({_join_texts(plan.columns[: plan.keys] or plan.columns)})"


def _join_texts(columns: Sequence[ComparedColumn]) -> str:
    """The texts with their lengths, so that no two rows give the same."""
    marked = [
        f"coalesce('v' || length({value}) || ':' || {value}, 'n')"
        for value in (_render_text(c) for c in columns)
    ]
    return " || ".join(marked)


def _render_text(column: ComparedColumn) -> str:
    q = _quote_column(column.field)
    return f"(CASE WHEN {q} IS NOT NULL THEN {_TEXTS[column.kind].format(q=q)} END)"


def _render_exact(column: ComparedColumn) -> str:
    if column.kind in ("float", "real"):
        return f"{_quote_column(column.field)}::text"
    return _render_text(column)


def _quote_column(name: str) -> str:
    doubled = name.replace('"', '""')
    return f't."{doubled}"'.replace(":", "\\:")


def _render_number(digest: str, digits: int, bits: int) -> str:
    return f"('x' || substr({digest}, 1, {digits}))::bit({bits})::bigint"


_BUCKET = f"({_render_number('k', 8, 32)} % {BUCKETS})"
