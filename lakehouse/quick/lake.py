"""Reads a lake on this machine with DuckDB: small queries are answered without Spark.

A table's Delta log has its files, the columns' names in them, and the hidden rows. If DuckDB might
answer otherwise than Spark, NotQuick is raised and the caller uses Spark.
"""

import json
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from lakehouse.config.column_types import to_sql_name
from lakehouse.config.target import Layer, Target
from lakehouse.quick.hidden_rows import read_hidden_rows
from lakehouse.storage.delta_log import NESTED, TableLog, read_table_log
from lakehouse.storage.names import is_delta_table, table_folder

NEEDED = ("duckdb", "pyroaring")
MOST_ROWS, MOST_FILES, MOST_HIDDEN = 5_000_000, 1_000, 500_000
"""Limits of a table; larger ones are left to Spark."""
_KNOWN = frozenset(
    {"columnMapping", "deletionVectors", "typeWidening", "timestampNtz", "v2Checkpoint"}
)
_TYPES = {
    "string": "VARCHAR", "long": "BIGINT", "integer": "INTEGER", "short": "SMALLINT",
    "byte": "TINYINT", "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP", "binary": "BLOB", "float": "FLOAT", "double": "DOUBLE",
}  # fmt: skip
_FILE_TIME = "_metadata.file_modification_time"
_REPLACEMENTS: Sequence[tuple[str, str]] = (
    (r"`([^`\"]*)`", r'"\1"'),
    (r"(?<![\"'])\b(at)\b(?![\"'])", r'"\1"'),
    (r"\b(\d+)L\b", r"\1"),
    (r"\bmax_by\(", "arg_max_null("),
    (r"\bpercentile\(", "quantile_cont("),
    (r"\btimestampdiff\(SECOND,", "date_sub('second',"),
    (r"\bexplode\((\w+)\) AS \((\w+), (\w+)\)",
     r"unnest(map_keys(\1)) AS \2, unnest(map_values(\1)) AS \3"),
    (re.escape(_FILE_TIME), "(SELECT changed FROM _files WHERE _files.file = _data_file)"),
)  # fmt: skip
"""Patterns of Spark's SQL and their replacements in DuckDB's."""


class NotQuick(Exception):
    """DuckDB cannot answer as Spark would, or not certainly."""


class QuickAnswer(NamedTuple):
    """Columns with their DuckDB types, and rows; times are in UTC, without a zone."""

    columns: list[str]
    types: list[str]
    rows: list[tuple[Any, ...]]


class QuickLake:
    """The tables of a lake without a catalog, each loaded when it is first used.

    `said` are more phrases of Spark's SQL, with what DuckDB says instead.
    """

    def __init__(self, target: Target, said: Mapping[str, str] = MappingProxyType({})) -> None:
        """Opens DuckDB without any table.

        Raises:
            NotQuick: the lake is not on this machine, or DuckDB is not installed.
        """
        if target.kind != "local" or target.catalog or "://" in target.lake:
            raise NotQuick("the lake is not on this machine")
        if any(find_spec(package) is None for package in NEEDED):
            raise NotQuick("the extra quick is not installed")
        import duckdb

        self.target, self.at_once = target, 1
        self._said, self._names = said, set[str]()
        self._logs, self._times = dict[str, TableLog | None](), list[str]()
        self._duck, self._failure = duckdb.connect(), duckdb.Error
        self._duck.execute("SET TimeZone = 'UTC'")
        self._duck.execute("SET parquet_metadata_cache = true")
        self._duck.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        self._duck.execute("CREATE TEMP TABLE _files (file VARCHAR, changed TIMESTAMPTZ)")

    def exists(self, layer: Layer, table: str) -> bool:
        """Whether a table has been created."""
        return is_delta_table(Path(str(table_folder(self.target, layer, table))))

    def name(self, layer: Layer, table: str) -> str:
        """The quoted name of a table in Spark's SQL.

        Raises:
            NotQuick: the table cannot be read with certainty.
        """
        name = f"{layer}.{table}"
        if name not in self._names:
            log = self._read_log(layer, table)
            if log is None or not log.features <= _KNOWN or _is_large(log):
                raise NotQuick(f"{name} is not read here")
            try:
                self._register(name, log)
            except (self._failure, OSError, ValueError) as failure:
                raise NotQuick(str(failure)) from failure
            self._names.add(name)
        return f"`{name}`"

    def column_types(self, layer: Layer, table: str) -> dict[str, str]:
        """The columns of a table with their types in Spark's SQL.

        Raises:
            NotQuick: the log cannot be read.
        """
        log = self._read_log(layer, table)
        if log is None:
            raise NotQuick(f"{layer}.{table} is not read here")
        return {name: to_sql_name(kind) for name, kind in log.columns.items()}

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query in Spark's SQL, by column.

        Raises:
            NotQuick: DuckDB cannot answer it.
        """
        answer = self.answer(self.in_duckdb(query))
        return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]

    def answer(self, query: str) -> QuickAnswer:
        """The answer to a query in DuckDB's own SQL.

        Raises:
            NotQuick: DuckDB cannot answer it.
        """
        try:
            if self._times and "_files" in query:
                self._duck.execute(f"INSERT INTO _files VALUES {', '.join(self._times)}")
                self._times.clear()
            relation = self._duck.sql(query)
            columns, types = list(relation.columns), [str(kind) for kind in relation.types]
            plain = [kind.removesuffix(" WITH TIME ZONE") for kind in types]
            shown = [f"CAST(#{at} AS {kind})" for at, kind in enumerate(plain, 1)]
            rows = relation.project(", ".join(shown)).fetchall() if columns else []
        except (self._failure, UnicodeDecodeError) as failure:
            raise NotQuick(str(failure)) from failure
        return QuickAnswer(columns, types, rows)

    def _read_log(self, layer: Layer, table: str) -> TableLog | None:
        """The table's log, read once."""
        name = f"{layer}.{table}"
        if name not in self._logs:
            self._logs[name] = read_table_log(self.target, layer, table)
        return self._logs[name]

    def in_duckdb(self, query: str) -> str:
        """Translates a query from Spark's SQL to DuckDB's; it must not contain users' texts."""
        for spark, duck in self._said.items():
            query = query.replace(spark, duck)
        for pattern, duck in _REPLACEMENTS:
            query = re.sub(pattern, duck, query)
        return re.sub(r"\bfrom_json\((\w+), '([^']*)'\)", _from_json, query)

    def _register(self, name: str, log: TableLog) -> None:
        """Creates a view of the table with its columns' own names and types."""
        typed = {
            c: None if kind in NESTED else _TYPES.get(kind, kind) for c, kind in log.columns.items()
        }
        inside = {c: log.physical[c] for c in typed if typed[c] or log.physical[c] == c}
        columns = [f"{_quote_name(of)} AS {_quote_name(c)}" for c, of in inside.items()]
        none = [f"NULL::{typed[c]} AS {_quote_name(of)}" for c, of in inside.items() if typed[c]]
        rows = f"SELECT {', '.join([*none, 'NULL AS filename', 'NULL AS file_row_number'])}"
        rows += " WHERE false"  # a file may lack columns that were added after it
        if log.files:
            times = ((_quote_text(str(file)), file.stat().st_mtime_ns / 1e9) for file in log.files)
            self._times += [f"({file}, to_timestamp({changed!r}))" for file, changed in times]
            listed = ", ".join(_quote_text(str(file)) for file in log.files)
            options = "union_by_name = true, filename = true, file_row_number = true"
            rows += f" UNION ALL BY NAME SELECT * FROM read_parquet([{listed}], {options})"
        rows = f"({rows}) AS data{self._without_hidden(name, log)}"
        select = f"SELECT {', '.join(columns)}, filename AS _data_file FROM {rows}"
        self._duck.execute(f"CREATE VIEW {_quote_name(name)} AS {select}")

    def _without_hidden(self, name: str, log: TableLog) -> str:
        hidden = {file: v for file, v in zip(log.files, log.vectors, strict=True) if v}
        if not hidden:
            return ""
        table = _quote_name(f"{name} hidden")
        self._duck.execute(f"CREATE TEMP TABLE {table} (filename VARCHAR, file_row_number BIGINT)")
        for file, vector in hidden.items():
            folder = Path(self.target.lake, *name.split(".", 1))
            rows = read_hidden_rows(folder, vector)
            insert = f"INSERT INTO {table} SELECT ?, unnest(?::BIGINT[])"
            self._duck.execute(insert, [str(file), rows])
        return f" ANTI JOIN {table} USING (filename, file_row_number)"


def _is_large(log: TableLog) -> bool:
    hidden = sum(each.get("hidden", 0) for each in log.stats)
    many = len(log.files) > MOST_FILES or hidden > MOST_HIDDEN
    return log.rows is None or log.rows > MOST_ROWS or many


def _from_json(written: re.Match[str]) -> str:
    """Spark's `from_json` of plain columns in DuckDB's SQL."""
    column, fields = written.groups()
    named = re.findall(r'"([^"]+)" (\w+(?:\([^)]*\))?)', fields)
    if not named:
        return written[0]
    kinds = {to_sql_name(k): kind for k, kind in _TYPES.items()} | _TYPES
    shape = {name: kinds.get(kind.strip(), kind.strip()) for name, kind in named}
    return f"from_json({column}, {_quote_text(json.dumps(shape))})"


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
