"""Dropped files that hold a key, in each format and in each spelling of a value."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bronze.erasure.dropped_keys import files_with_key, find_landing_folders
from lakehouse.config.table import Table
from lakehouse.config.target import Target

DEBEZIUM = {"format": "debezium", "path": "shop"}
YDB = {"format": "ydb", "path": "shop"}
FILES = {"format": "snapshot", "path": "shop", "mode": "full", "file_format": "csv"}


def table(source: dict[str, Any], columns: dict[str, str] | None = None) -> Table:
    given = {"table": "t", "source": source, "keys": ["id"], "columns": columns or {}}
    return Table.model_validate(given)


def landed(root: Path, text: str, name: str = "a.jsonl") -> Target:
    file = root / "landing" / "shop" / "deep" / name
    file.parent.mkdir(parents=True)
    content = text.encode()
    file.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return Target(root=str(root))


def whole(value: object, key: object = None, topic: str = "s.p.t") -> str:
    return json.dumps({"topic": topic, "key": key, "value": value})


def kcat(payload: str | None, key: str | None = None) -> str:
    origin = {"topic": "s.p.t", "partition": 0, "offset": 5}
    return json.dumps(origin | {"key": key, "payload": payload})


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (DEBEZIUM, json.dumps({"before": None, "after": {"id": 7}, "op": "c"})),
        (DEBEZIUM, json.dumps({"before": {"id": 7}, "after": {"id": 8}, "op": "u"})),
        (DEBEZIUM, json.dumps({"schema": {}, "payload": {"after": {"id": 7}, "op": "c"}})),
        (DEBEZIUM, whole({"after": {"id": 7}, "op": "c"})),
        (DEBEZIUM, whole(None, {"schema": {}, "payload": {"id": 7}})),
        (DEBEZIUM, kcat(json.dumps({"after": {"id": 7}, "op": "c"}))),
        (DEBEZIUM, kcat(None, json.dumps({"id": 7}))),
        (DEBEZIUM | {"topic": "s.p.t"}, whole({"after": {"id": 7}, "op": "c"})),
        ({"format": "ydb", "path": "shop"}, json.dumps({"key": [7], "erase": {}})),
        ({"format": "bigquery", "path": "shop"}, json.dumps({"_CHANGE_TYPE": "UPSERT", "id": 7})),
    ],
)
def test_a_file_that_holds_the_key_is_found(
    tmp_path: Path, source: dict[str, Any], line: str
) -> None:
    target = landed(tmp_path, f"not json\n{line}\n")
    (found,) = files_with_key(target, table(source), {"id": "7"})
    assert found.name == "a.jsonl"
    assert files_with_key(target, table(source), {"id": "77"}) == []


@pytest.mark.parametrize(
    ("kind", "key", "written"),
    [
        ("decimal(9,2)", "12.30", base64.b64encode((1230).to_bytes(2, "big")).decode()),
        ("decimal(9,2)", "12.30", 12.3),
        ("decimal(9,2)", "-1.00", "nA=="),
        ("date", "2024-01-02", 19724),
        ("timestamp", "2024-01-02T03:04:05Z", 1704164645000),
        ("timestamp", "2024-01-02T03:04:05Z", 1704164645000000),
        ("boolean", "true", True),
        ("double", "1e3", 1000),
        ("string", "é", "é"),
    ],
)  # fmt: skip
def test_a_key_is_found_in_the_spelling_of_its_type(
    tmp_path: Path, kind: str, key: str, written: object
) -> None:
    target = landed(tmp_path, json.dumps({"after": {"id": written}, "op": "c"}))
    assert files_with_key(target, table(DEBEZIUM, {"id": kind}), {"id": key})


@pytest.mark.parametrize(
    ("source", "name", "with_null", "without"),
    [
        (YDB, "a.jsonl", '{"key": [null, 7], "erase": {}}', '{"key": ["None", 7], "erase": {}}'),
        (YDB, "a.jsonl", '{"key": [null, 7], "erase": {}}', '{"value": {"id": 7}}'),
        (FILES, "a.csv", "tenant,id\n,7\n", "tenant,id\nx,7\n"),
    ],
)
def test_a_null_in_a_key_is_a_null_in_the_file(
    tmp_path: Path, source: dict[str, Any], name: str, with_null: str, without: str
) -> None:
    of = Table.model_validate({"table": "t", "source": source, "keys": ["tenant", "id"]})
    key = {"tenant": None, "id": "7"}
    assert files_with_key(landed(tmp_path / "with", with_null, name), of, key)
    assert files_with_key(landed(tmp_path / "without", without, name), of, key) == []


@pytest.mark.parametrize(
    ("source", "content"),
    [
        (FILES, b"ID; Name\n7;x\n"),
        (FILES, "id\tname\n7\tZo\u00eb\n".encode("utf-16")),
        (FILES | {"csv": {"header": False, "sep": "||"}}, b"7||x\n"),
        (FILES | {"csv": {"encoding": "ISO-8859-1"}}, b"name,id\nZo\xeb,7\n"),
        (FILES | {"csv": {"escape": ""}}, b"name,id\nx,7\n"),
        (FILES | {"csv": {"escape": '"'}}, b'name,id\n"a ""b"", c",7\n'),
        (FILES, b'name,id\n"a ""b"", c",7\n'),
        (FILES | {"csv": {"escape": "\\"}}, b'name,id\n"say \\"hi, you\\" now",7\n'),
        (FILES, b'name,id\n"say \\"hi, you\\" now",7\n'),
        (FILES, b'name,id\n"C:\\",7\n'),
        (FILES, b'name,id\n"' + b"x" * 200_000 + b'",7\n'),
        (YDB | {"format": "bigquery"}, b'[\n{"id": 6},\n{"Id": 7}\n]\n'),
        (YDB | {"format": "bigquery"}, b'{\n"id": 7\n}\n'),
        (YDB | {"format": "bigquery"}, b'\xef\xbb\xbf{"id": 6}{"id": 7}'),
    ],
)
def test_a_key_is_found_however_its_file_is_written(
    tmp_path: Path, source: dict[str, Any], content: bytes
) -> None:
    target = landed(tmp_path, "", "a")
    (tmp_path / "landing" / "shop" / "deep" / "a").write_bytes(content)
    of = table(source, {"id": "int", "name": "string"})

    assert files_with_key(target, of, {"id": "7"})
    assert files_with_key(target, of, {"id": "8"}) == []


def test_a_part_of_a_key_may_be_a_files_folder(tmp_path: Path) -> None:
    target = landed(tmp_path, "", "a")
    file = tmp_path / "landing" / "shop" / "region=eu" / "a.csv"
    file.parent.mkdir()
    file.write_text("id,name\n7,x\n")

    assert files_with_key(target, table(FILES), {"id": "7", "region": "eu"}) == [file]
    assert files_with_key(target, table(FILES), {"id": "7", "region": "us"}) == []


def test_another_tables_topic_in_the_same_file_is_not_the_key(tmp_path: Path) -> None:
    target = landed(tmp_path, whole({"after": {"id": 7}, "op": "c"}, topic="s.p.other"))
    assert files_with_key(target, table(DEBEZIUM | {"topic": "s.p.t"}), {"id": "7"}) == []


def test_compressed_files_csv_and_parquet_are_read(tmp_path: Path) -> None:
    target = landed(tmp_path / "gz", json.dumps({"after": {"id": 7}, "op": "c"}), "a.jsonl.gz")
    assert files_with_key(target, table(DEBEZIUM), {"id": "7"})
    rows = {"format": "bigquery", "path": "shop"}
    target = landed(tmp_path / "csv", "id,name\n7,x\n", "a.csv")
    assert files_with_key(target, table(rows | {"file_format": "csv"}), {"id": "7"})
    target = landed(tmp_path / "parquet", "", "a.parquet")
    (folder,) = find_landing_folders(target, table(rows))
    pq.write_table(pa.table({"id": [7, 8]}), folder / "deep" / "a.parquet")
    parquet = table(rows | {"file_format": "parquet"})
    assert files_with_key(target, parquet, {"id": "8"})
    assert files_with_key(target, parquet, {"id": "9"}) == []


def test_a_file_that_cannot_be_read_and_a_folder_that_is_not_there_hold_nothing(
    tmp_path: Path,
) -> None:
    target = landed(tmp_path, "", "a.jsonl.gz")
    for content in (b"no gzip", b"\x1f\x8b\x08" + bytes(7) + b"no deflate"):
        (tmp_path / "landing" / "shop" / "deep" / "a.jsonl.gz").write_bytes(content)
        assert files_with_key(target, table(DEBEZIUM), {"id": "7"}) == []
    elsewhere = table(DEBEZIUM | {"path": "nowhere"})
    assert (
        files_with_key(target, elsewhere, {"id": "7"}),
        find_landing_folders(target, elsewhere),
    ) == ([], [])
