"""What PostgreSQL holds and what gold shows, in forms that can be compared."""

import json
from collections import defaultdict
from decimal import Decimal
from typing import Any

from lakehouse.storage.lake import Lake
from tests.e2e.postgres import Postgres
from tests.helpers import lakes, truth

Row = dict[str, Any]
AT_THE_SOURCE = {"mixed_case": "Mixed Case"}
UNTRACKED = {"orders": ("note",), "customers": ()}


def columns(server: Postgres, table: str) -> dict[str, str]:
    """The columns of a table at the source, with their types."""
    found = server.rows(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid ="
        f" '{_at_the_source(table)}'::regclass AND attnum > 0 AND NOT attisdropped"
    )
    return {column: kind for column, kind in found}


def source_rows(server: Postgres, table: str) -> list[str]:
    found = server.rows(f"SELECT to_jsonb(t)::text FROM {_at_the_source(table)} t")
    types = columns(server, table)
    return sorted(repr(truth.comparable(_parsed(text), types)) for (text,) in found)


def gold_rows(lake: Lake, server: Postgres, table: str) -> list[str]:
    types = columns(server, table)
    return sorted(repr(truth.comparable(row, types)) for row in lakes.rows(lake, table))


def source_history(server: Postgres, table: str) -> dict[str, list[str]]:
    """The versions of every row, in order, as one who saw every change would keep them."""
    types = columns(server, table)
    versions: dict[str, list[Row]] = defaultdict(list)
    shut: set[str] = set()
    query = f"SELECT op, row::text FROM audit.seen WHERE name = '{table}' ORDER BY place"
    for op, text in server.rows(query):
        row = truth.comparable(_parsed(text), types)
        key, known = str(row["id"]), versions[str(row["id"])]
        if op == "DELETE":
            shut.add(key)
        elif known and key not in shut and _tracked(table, known[-1]) == _tracked(table, row):
            known[-1] = row
        else:
            known.append(row)
            shut.discard(key)
    return {key: [repr(row) for row in rows] for key, rows in versions.items()}


def gold_history(lake: Lake, server: Postgres, table: str) -> dict[str, list[str]]:
    types = columns(server, table)
    found: dict[str, list[str]] = defaultdict(list)
    rows = lakes.rows(lake, f"{table}_history")
    for row in sorted(rows, key=lambda row: str(row["sequence_from"])):
        shown = truth.comparable(row, types)
        found[str(shown["id"])].append(repr(shown))
    return dict(found)


def _tracked(table: str, row: Row) -> Row:
    return {column: value for column, value in row.items() if column not in UNTRACKED[table]}


def _at_the_source(table: str) -> str:
    return f'shop."{AT_THE_SOURCE.get(table, table)}"'


def _parsed(text: str) -> Row:
    row: Row = json.loads(text, parse_float=Decimal, parse_int=Decimal)
    return row
