"""Any other database's side of a comparison: each step reads all rows, and digests them here.

Some values of MySQL and MariaDB would come without all digits or without their type: these are
selected by an expression.
"""

from collections.abc import Iterator, Sequence
from hashlib import md5
from typing import Any

from sqlalchemy import Connection, inspect, text
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeEngine

from gold.source_check.plan import BUCKETS, ComparedColumn, ComparisonPlan, ExactRow
from gold.source_check.texts import Kind, text_of

PARTS = 1
"""Every query reads all rows, so there is only one part."""
Row = tuple[str | None, ...]

_MYSQL = "mysql"
_OF_MYSQL: dict[Kind, str] = {"bits": "BIN({q})", "bool": "{q} + 0", "real": "{q} + 0e0"}


def read_columns(connection: Connection, schema: str | None, table: str) -> dict[str, str]:
    """The table's columns and their types as SQLAlchemy writes them."""
    listed = inspect(connection).get_columns(table, schema=schema)
    return {column["name"]: type_name(column["type"]) for column in listed}


def type_name(type: TypeEngine[Any]) -> str:
    """The name of a type; MySQL's FLOAT is a real, and its BIT has a length."""
    if isinstance(type, mysql.FLOAT):
        return "REAL"
    return f"BIT({type.length or 1})" if isinstance(type, mysql.BIT) else str(type)


def pin_state(connection: Connection) -> None:
    """Makes MySQL show one state, in UTC; other databases' plain transactions have to do."""
    if connection.dialect.name == _MYSQL:
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
        connection.execute(text("SET time_zone = '+00:00'"))


def read_bucket_digests(
    connection: Connection, plan: ComparisonPlan, part: range
) -> dict[int, tuple[int, int]]:
    """Of each bucket of a part the number of rows and the sum of their digests."""
    sums: dict[int, tuple[int, int]] = {}
    for key, row in _read_digests(connection, plan):
        bucket = bucket_of(key)
        if bucket not in part:
            continue
        count, total = sums.get(bucket, (0, 0))
        sums[bucket] = (count + 1, total + int(row[:15], 16))
    return sums


def read_row_digests(
    connection: Connection, plan: ComparisonPlan, chosen: Sequence[int]
) -> Iterator[tuple[str, str]]:
    """Key and content of each row in the chosen buckets, as digests."""
    wanted = frozenset(chosen)
    for key, row in _read_digests(connection, plan):
        if bucket_of(key) in wanted:
            yield key, row


def read_exact(
    connection: Connection, plan: ComparisonPlan, ids: Sequence[str]
) -> Iterator[ExactRow]:
    """The rows of these keys; which transaction wrote them is not known."""
    wanted = frozenset(ids)
    for values in _read_rows(connection, plan):
        key = _digest_key(_build_texts(values, plan), plan)
        if key in wanted:
            yield ExactRow(key, _build_texts(values, plan, exact=True), None)


def read_position(connection: Connection) -> None:
    """None: only PostgreSQL shows how far its log has come."""


def bucket_of(key: str) -> int:
    """The bucket of a key's digest."""
    return int(key[:8], 16) % BUCKETS


def _digest_key(texts: Row, plan: ComparisonPlan) -> str:
    """The digest that identifies a row; of a table without a key, of the whole row."""
    return digest_texts(texts[: plan.keys] or texts)


def digest_texts(texts: Sequence[str | None]) -> str:
    """The digest of texts, each with its length."""
    marked = "".join("n" if t is None else f"v{len(t)}:{t}" for t in texts)
    return md5(marked.encode(), usedforsecurity=False).hexdigest()


def _read_digests(connection: Connection, plan: ComparisonPlan) -> Iterator[tuple[str, str]]:
    for values in _read_rows(connection, plan):
        texts = _build_texts(values, plan)
        yield _digest_key(texts, plan), digest_texts(texts)


def _read_rows(connection: Connection, plan: ComparisonPlan) -> Iterator[Sequence[object]]:
    listed = ", ".join(_select_column(connection, column) for column in plan.columns)
    query = text(f"SELECT {listed} FROM {plan.source}").execution_options(stream_results=True)
    yield from connection.execute(query)


def _select_column(connection: Connection, column: ComparedColumn) -> str:
    quoted = connection.dialect.identifier_preparer.quote(column.field).replace(":", "\\:")
    is_mysql = connection.dialect.name == _MYSQL
    return _OF_MYSQL.get(column.kind, "{q}").format(q=quoted) if is_mysql else quoted


def _build_texts(values: Sequence[object], plan: ComparisonPlan, exact: bool = False) -> Row:
    return tuple(
        repr(value)
        if exact and isinstance(value, float) and column.kind in ("float", "real")
        else text_of(value, column.kind)
        for value, column in zip(values, plan.columns, strict=True)
    )
