"""Reads a Delta table's log without Spark: columns, number of rows, bounds of values.

Tables in a catalog are not read. What the log lacks, or has in an unsupported form (such as a
checkpoint in several parts), is None, which is no error.
Source: Delta's transaction log protocol, PROTOCOL.md.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from lakehouse.config.target import Layer, Target
from lakehouse.places.place import Place, ask_each, list_folder, open_file, to_place
from lakehouse.storage.names import table_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ColumnChunkMetaData

Action: TypeAlias = Mapping[str, Any]

MOST_FILES = 100
NESTED = ("array", "map", "struct", "variant")
_BOUNDED = ("NONE", "INT", "STRING")
"""Logical types of columns whose bounds are read; those of times would load pandas."""
_PHYSICAL = "delta.columnMapping.physicalName"
_OF_VECTOR = ("storageType", "pathOrInlineDv", "offset")
"""What identifies a deletion vector."""


class TableLog(NamedTuple):
    """A table's newest version: its rows (None if unknown), its columns' types, its data files.

    Of a nested type only `array`, `map` or `struct` is known.

    `physical` are the columns' names in the files, `stats` the log's statistics of each file and
    the number of its `hidden` rows, `clustered` the clustering columns, `features` those that a
    reader of the table must support, `vectors` the deletion vector of each file or None, `bytes`
    the size of all files, `properties` the table's.
    """

    version: int
    rows: int | None
    columns: dict[str, str]
    physical: dict[str, str]
    files: list[Place]
    stats: Sequence[Action] = ()
    clustered: Sequence[str] = ()
    features: frozenset[str] = frozenset()
    vectors: Sequence[Action | None] = ()
    bytes: int = 0
    properties: Mapping[str, str] = MappingProxyType({})

    def find_highest(self, column: str) -> int | None:
        """The highest whole number in a column, 0 in a table without rows; None if unknown."""
        inside = self.physical.get(column, column)
        filled = [each for each in self.stats if each.get("numRecords") != 0]
        maxima = [each.get("maxValues", {}).get(inside) for each in filled]
        if self.rows is None or any(each.get("hidden") for each in self.stats):
            return None
        return None if None in maxima else max(maxima, default=0)


class ColumnValues(NamedTuple):
    """A column over all files: the number of values that are not null; bounds of ints and texts."""

    values: int
    numbers: tuple[int, int] | None = None
    texts: tuple[str, str] | None = None


def read_log(folder: Place) -> TableLog | None:
    """The newest version of the table in the folder; None if it cannot be read."""
    try:
        version, actions = _read_actions(folder / "_delta_log")
        return _build_table(folder, version, actions) if version >= 0 else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_table_log(target: Target, layer: Layer, table: str) -> TableLog | None:
    """The newest version of a table of the lake; None if it is missing or in a catalog."""
    folder = table_folder(target, layer, table)
    return None if folder is None else read_log(to_place(target, folder))


def read_notes(folder: Place) -> Iterator[str]:
    """The `userMetadata` of the commits of the table in the folder, the newest first."""
    log: Iterator[Place] = (folder / "_delta_log").glob("*.json")
    commits = [file for file in log if file.stem.isdigit()]
    for file in sorted(commits, key=str, reverse=True):
        lines = file.read_text(encoding="utf-8").splitlines()
        infos = [json.loads(line)["commitInfo"] for line in lines if '"commitInfo"' in line[:20]]
        yield from (info["userMetadata"] for info in infos if info.get("userMetadata"))


def read_column_values(table: TableLog) -> dict[str, ColumnValues] | None:
    """The columns' values by the footers of the data files.

    Hidden rows are counted. Nested columns, and columns without statistics in a footer, are left
    out. None for a table of more than `MOST_FILES` files, or a damaged one.
    """
    if len(table.files) > MOST_FILES:
        return None
    try:
        chunks = [chunk for file in table.files for chunk in _read_chunks(file)]
    except (OSError, ValueError):
        return None
    names = {inside: n for n, inside in table.physical.items() if table.columns[n] not in NESTED}
    columns = dict.fromkeys(names, ColumnValues(0))
    for inside, values in chunks:
        if inside in columns and values is not None:
            columns[inside] = _merge_values(columns[inside], values)
        else:
            columns.pop(inside, None)
    return {names[inside]: values for inside, values in columns.items()}


def read_values(
    table: TableLog, columns: Sequence[str], most_files: int = MOST_FILES
) -> list[tuple[Any, ...]] | None:
    """All rows of some columns, including hidden rows.

    None for a table of more than `most_files` files, a damaged one, or one without the columns.
    """
    if len(table.files) > most_files or not set(columns) <= set(table.physical):
        return None
    inside = [table.physical[name] for name in columns]
    try:
        parts = [_read_parquet(file, inside) for file in table.files]
    except (OSError, ValueError):
        return None
    return [
        row
        for part in parts
        for row in zip(*(part[name].to_pylist() for name in inside), strict=True)
    ]


def read_added(
    folder: Place, after: int, columns: Sequence[str]
) -> tuple[int, list[tuple[Any, ...]]] | None:
    """The newest version of a table, and the rows that commits after a version have added.

    Rows that a commit only moves are left out. None where the log or a file is not there any more.
    For tables whose columns have their own names in the files.
    """
    log = folder / "_delta_log"
    try:
        commits = _commits_from(log, after + 1)
        is_kept = (log / f"{max(after, 0):020}.json").exists()
        if not is_kept and (after >= 0 or commits):
            return None
        lines = [line for text in ask_each(_read_text, commits) for line in text.splitlines()]
        added = [json.loads(line)["add"] for line in lines if line.startswith('{"add"')]
        files = [folder / unquote(add["path"]) for add in added if add.get("dataChange", True)]
        parts = [_read_parquet(file, columns) for file in files]
    except (OSError, ValueError):
        return None
    rows = [zip(*(part[name].to_pylist() for name in columns), strict=True) for part in parts]
    return after + len(commits), [row for part in rows for row in part]


def forget_old_log(folder: Place) -> None:
    """Deletes the files of the table's log from before its newest checkpoint."""
    log = folder / "_delta_log"
    newest = int(json.loads(_read_text(log / "_last_checkpoint"))["version"])
    for file in list_folder(log):
        number = file.name.lstrip(".").partition(".")[0]
        if number.isdigit() and int(number) < newest:
            file.unlink(missing_ok=True)


def _read_actions(log: Place) -> tuple[int, list[Action]]:
    """The newest version, and the actions of the last checkpoint and all commits since."""
    first, actions = 0, list[Action]()
    pointer: str | None = None
    with suppress(FileNotFoundError):
        pointer = _read_text(log / "_last_checkpoint")
    if pointer is not None:
        checkpoint = json.loads(pointer)
        if "parts" in checkpoint or "v2Checkpoint" in checkpoint:
            raise ValueError("a checkpoint in several parts")
        first = int(checkpoint["version"]) + 1
        actions += _read_checkpoint(log / f"{first - 1:020}.checkpoint.parquet")
    commits = _commits_from(log, first)
    for text in ask_each(_read_text, commits):
        actions += [json.loads(line) for line in text.splitlines()]
    return first - 1 + len(commits), actions


def _commits_from(log: Place, version: int) -> list[Place]:
    """The files of the commits from a version to the newest; a store is listed once."""
    names = {file.name for file in list_folder(log)} if not isinstance(log, Path) else None
    commits = list[Place]()
    while True:
        commit = log / f"{version + len(commits):020}.json"
        if not (commit.exists() if names is None else commit.name in names):
            return commits
        commits.append(commit)


def _read_text(file: Place) -> str:
    return file.read_text(encoding="utf-8")


def _read_checkpoint(file: Place) -> Iterator[Action]:
    import pyarrow.parquet as pq

    with open_file(file) as source, pq.ParquetFile(source) as opened:
        wanted = {"protocol", "metaData", "add", "domainMetadata"} & {*opened.schema_arrow.names}
        rows = opened.read(sorted(wanted)).to_pylist()
    for row in rows:
        yield {name: action for name, action in row.items() if action is not None}


def _read_parquet(file: Place, columns: Sequence[str]) -> "pa.Table":
    import pyarrow.parquet as pq

    with open_file(file) as source:
        return pq.read_table(source, columns=list(columns), partitioning=None)


def _build_table(folder: Place, version: int, actions: Sequence[Action]) -> TableLog:
    metadata = _find_newest(actions, "metaData")
    fields = json.loads(metadata["schemaString"])["fields"] if metadata is not None else []
    protocol = _find_newest(actions, "protocol") or {}
    features = frozenset(protocol.get("readerFeatures") or ())
    files = _list_files(actions)
    stats = [_read_stats(file) for file in files]
    is_counted = all("numRecords" in each for each in stats)
    rows = sum(each["numRecords"] - each["hidden"] for each in stats) if is_counted else None
    columns = {field["name"]: _name_type(field["type"]) for field in fields}
    physical = {field["name"]: field["metadata"].get(_PHYSICAL, field["name"]) for field in fields}
    places = [folder / unquote(file["path"]) for file in files]
    clustered = _clustered_columns(actions, {inside: name for name, inside in physical.items()})
    return TableLog(
        version, rows, columns, physical, places, stats, clustered, features,
        vectors=[file.get("deletionVector") for file in files],
        bytes=sum(int(file.get("size", 0)) for file in files),
        properties=dict((metadata or {}).get("configuration") or {}),
    )  # fmt: skip


def _find_newest(actions: Sequence[Action], kind: str) -> Action | None:
    return next((action[kind] for action in reversed(actions) if kind in action), None)


def _read_stats(file: Action) -> Action:
    """The log's statistics of a file; `hidden` is the number of rows that a vector hides."""
    hidden = (file.get("deletionVector") or {}).get("cardinality", 0)
    return {**json.loads(file.get("stats") or "{}"), "hidden": hidden}


def _name_type(written: object) -> str:
    """The name of a type in the log: for a nested one only array, map or struct."""
    return str(written["type"]) if isinstance(written, dict) else str(written)


def _clustered_columns(actions: Sequence[Action], names: Mapping[str, str]) -> list[str]:
    domains = [action["domainMetadata"] for action in actions if "domainMetadata" in action]
    newest = [domain for domain in domains if domain["domain"] == "delta.clustering"][-1:]
    kept = [json.loads(domain["configuration"]) for domain in newest if not domain["removed"]]
    return [names[column[0]] for each in kept for column in each["clusteringColumns"]]


def _list_files(actions: Sequence[Action]) -> list[Action]:
    """The data files that were added and not removed since.

    A new deletion vector removes and adds a file under the same path: path and vector identify it.
    """
    files: dict[tuple[object, ...], Action] = {}
    for action in actions:
        for kind in ("remove", "add"):
            file = action.get(kind) or {}
            vector = file.get("deletionVector") or {}
            identity = (file.get("path"), *(vector.get(name) or "" for name in _OF_VECTOR))
            if kind == "add" and file:
                files[identity] = file
            elif file:
                files.pop(identity, None)
    return list(files.values())


def _read_chunks(file: Place) -> Iterator[tuple[str, ColumnValues | None]]:
    """The columns in each row group of a Parquet file, with values; None without statistics."""
    import pyarrow.parquet as pq

    with open_file(file) as source:
        metadata = pq.read_metadata(source)
    for group in range(metadata.num_row_groups):
        for at in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(at)
            yield chunk.path_in_schema, _read_values_of(chunk)


def _read_values_of(chunk: "ColumnChunkMetaData") -> ColumnValues | None:
    stats = chunk.statistics
    if stats is None or not stats.has_null_count:
        return None
    is_bounded = stats.has_min_max and stats.logical_type.type in _BOUNDED
    bounds: Any = (stats.min, stats.max) if is_bounded else (None, None)
    whole, text = ({type(bound) for bound in bounds} == {kind} for kind in (int, str))
    numbers, texts = bounds if whole else None, bounds if text else None
    return ColumnValues(chunk.num_values - stats.null_count, numbers, texts)


def _merge_values(one: ColumnValues, other: ColumnValues) -> ColumnValues:
    numbers = [bounds for bounds in (one.numbers, other.numbers) if bounds is not None]
    texts = [bounds for bounds in (one.texts, other.texts) if bounds is not None]
    return ColumnValues(
        one.values + other.values,
        (min(n[0] for n in numbers), max(n[1] for n in numbers)) if numbers else None,
        (min(t[0] for t in texts), max(t[1] for t in texts)) if texts else None,
    )
