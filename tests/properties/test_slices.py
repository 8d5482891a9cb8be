"""Records that are read by columns become what they become one by one, whatever stands beside them.

Each mixture has usual records of its format, and some that need thought: values that do not fit,
new and missing fields, placeholders, odd numbers and texts, doubled names, dead letters.
"""

import csv
import io
import json
import pickle
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.config.loading import load_tables
from lakehouse.config.table import Table
from silver.decode.arrow import (
    DiscoveryPlan,
    discover_batches,
)
from silver.decode.columns import Columns, known_columns
from silver.decode.protocols.rows import with_fault_column
from tests.helpers.both_ways import batch, both_ways, same
from tests.properties.budget import count_examples

MIXTURES = count_examples(8)
CASES = Path(__file__).parents[1] / "fixtures" / "cases"
COLUMNS = {
    "id": "bigint", "name": "string", "small": "tinyint", "total": "decimal(12,2)",
    "price": "double", "moment": "timestamp", "local": "timestamp_ntz", "day": "date",
    "flag": "boolean", "octets": "binary", "tags": "array<string>",
}  # fmt: skip
ODD: list[Any] = [
    None, "", " 5", "5", "x", 5, -1, 300, 1 << 63, 10**40, 1.5, 1e300, True, False, [], [1], ["a"],
    {}, {"a": 1}, {"value": 1, "set": True}, "NaN", "Infinity", float("nan"), "12.345", "1e3",
    "0x1F", "+7", "007", "AQ==", "AQID", "hex:00", "__debezium_unavailable_value",
    "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", ["__debezium_unavailable_value"],
    "2024-02-30", "2024-05-01", "2024-05-01T10:00:00Z", "2024-05-01T10:00:00+02:00",
    "2024-05-01T00:00:00Z", "2024-05-01 00:00:00", "2024-05-01T00:00:00+02:00",
    "2024-05-01 10:00:60Z", "0000-01-01T00:00:00Z", "12024-05-01T00:00:00Z", "\ud800", "\u0000",
    {"year": 2024, "month": 2, "day": 29, "hour": 1}, {"specialValue": "POSITIVE_INFINITY"},
    20240501, 19_000, 1_714_557_600_000, 1_714_557_600_000_000, 253_402_300_800_000, "true", "é",
    123456789012345678.5, "1" * 30, {"scale": 1, "value": "AQ=="},
]  # fmt: skip


def row(random: Random, at: int) -> dict[str, Any]:
    return {
        "id": at % 7,
        "name": f"n{at % 5}",
        "small": at % 100,
        "total": random.choice(["AQ==", "AfQ=", "/w=="]),
        "price": at / 8,
        "moment": f"2024-05-01T10:00:{at % 60:02}.5Z",
        "local": 1_714_557_600_000 + at,
        "day": 19_000 + at,
        "flag": at % 2 == 0,
        "octets": "AQID",
        "tags": ["a", None],
    }


def disturbed(random: Random, given: dict[str, Any]) -> dict[str, Any]:
    """A row with something odd in it."""
    name = random.choice([*given])
    kind = random.randrange(8)
    if kind == 0:
        return {n: v for n, v in given.items() if n != name}
    if kind == 1:
        return given | {"new": random.choice([None, 1, "x"])}
    if kind == 2:
        return {(n.upper() if n == name else n): v for n, v in given.items()}
    if kind == 3:
        return dict(reversed(given.items()))
    return given | {name: random.choice(ODD)}


def event(random: Random, at: int) -> dict[str, Any]:
    after = row(random, at)
    op = random.choice(["c", "c", "u", "d", "r"])
    connector = random.choice(["postgresql"] * 8 + ["mysql", None, "vitess", "oracle"])
    source = {"connector": connector, "name": "s", "ts_ms": 1_000 + at, "db": "d", "table": "t"}
    if connector in (None, "vitess"):
        pass  # without a position
    elif connector == "oracle":
        source |= {"commit_scn": str(at // 3 * 3), "scn": random.choice([str(at), at, None])}
    elif connector == "mysql":
        source |= {"file": "b.000001", "pos": at, "row": 0}
    else:
        source |= {"lsn": 100 + at, "sequence": f'["{99 + at}","{100 + at}"]', "txId": at // 2}
    made = {"op": op, "before": None, "after": after, "source": source, "ts_ms": at}
    if op == "d":
        made |= {"before": dict.fromkeys(after) | {"id": after["id"]}, "after": None}
    elif op == "u" and random.random() < 0.2:
        made["before"] = after | {"name": "old"}
    if random.random() < 0.1:
        made["transaction"] = {"id": f"{at}:{at}", "total_order": at % 3}
    return made


def disturbed_event(random: Random, given: dict[str, Any]) -> dict[str, Any]:
    kind, source = random.randrange(10), given["source"]
    side = "after" if given["after"] else "before"
    if kind < 5:
        return given | {side: disturbed(random, given[side])}
    if kind == 5:
        name = random.choice([*given])
        return {n: v for n, v in given.items() if n != name}
    if kind == 6:
        member = random.choice([*source, "snapshot", "lsn"])
        return given | {"source": source | {member: random.choice([*ODD, "last", "incremental"])}}
    if kind == 7:
        return given | {"op": random.choice(["t", "m", "x", None, "r", 5])}
    if kind == 8:
        return given | {"source": source | {"table": "other"}}
    return given | {"payload": random.choice([None, given]), "schema": random.choice([None, {}])}


def flattened(random: Random, at: int) -> dict[str, Any]:
    op = random.choice("cud")
    added = {"__op": op, "__lsn": 100 + at, "__source_ts_ms": 1_000 + at}
    return row(random, at) | added | {"__deleted": "true" if op == "d" else "false"}


def broken(random: Random, text: str) -> bytes | None:
    """A text that may be no JSON any more."""
    odd = [
        None, b"", b"null", b"{", b"[]", text.encode()[:-1], b" " + text.encode() + b"\n",
        text.replace('"n', '"\\ud800', 1).encode(), text.replace('"n', '"\xff', 1).encode("latin1"),
        text.replace('"n', '"\n', 1).encode(), text.replace('"id":', '"id":1,"id":', 1).encode(),
        text.replace('"id":', '"id":0', 1).encode(), json.dumps(text).encode(),
        text.replace('"price":', '"price":1.0000000000000000001e', 1).encode(),
    ]  # fmt: skip
    return random.choice(odd)


def block() -> dict[str, Any]:
    kinds = {
        "id": "int64", "name": "string", "small": "int8", "price": "double", "flag": "boolean",
        "octets": "bytes",
    }  # fmt: skip
    scale = {"scale": "2", "connect.decimal.precision": "12"}
    logic: dict[str, Any] = {
        "total": {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}
        | {"parameters": scale},
        "moment": {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
        "local": {"type": "int64", "name": "io.debezium.time.Timestamp"},
        "day": {"type": "int32", "name": "io.debezium.time.Date"},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    fields = [{"field": n, **(logic.get(n) or {"type": kinds[n]})} for n in COLUMNS]
    return {"type": "struct", "fields": [{"field": "after", "fields": fields}]}


FORMS = ("debezium", "whole", "blocks", "flattened", "rewritten")


def mixture(random: Random, form: str) -> list[dict[str, Any]]:
    """Records of bronze: most usual, some odd."""
    found = []
    odd_share = random.choice([0.0, 0.03, 0.3])
    for at in range(random.choice([5, 40, 90])):
        is_odd = random.random() < odd_share
        if form in ("flattened", "rewritten"):
            value = flattened(random, at)
            value = disturbed(random, value) if is_odd else value
        else:
            value = event(random, at)
            value = disturbed_event(random, value) if is_odd else value
        key: Any = {"id": at % 7}
        given: Any = value
        if form == "blocks":
            given, key = {"schema": block(), "payload": value}, {"schema": {}, "payload": key}
        if form == "whole":
            given = {"key": key, "value": value}
        text = json.dumps(given, separators=(",", ":"))
        raw = broken(random, text) if is_odd and random.random() < 0.3 else text.encode()
        logged = form != "whole"
        found.append(
            {
                "_raw": raw,
                "_key": json.dumps(key).encode() if random.random() < 0.9 else None,
                "_headers": random.choice([None] * 20 + [b'{"__debezium.oldkey":{"id":1}}']),
                "_topic": "t" if logged else None,
                "_partition": 0 if logged else None,
                "_offset": at + 5 if logged else None,
                "_timestamp": 7_000 + at if logged else None,
                "_whole": form == "whole",
            }
        )
    if odd_share and random.random() < 0.3:
        random.shuffle(found)
    return found


def known(of: Table, records: pa.RecordBatch, look: str) -> Columns:
    """The table's columns: after a look at all records, at some, or at none."""
    columns = known_columns(of, {})
    if look == "none":
        return columns
    shown = records if look == "all" else records.slice(0, 20)
    plan = DiscoveryPlan(of, columns)
    [found] = discover_batches(plan, iter([shown]))
    settled: Columns = pickle.loads(found.column("discovery")[0].as_py()).settle(look == "all")[0]
    return settled


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("look", ["all", "some", "none"])
def test_a_mixture_of_records_becomes_the_same_by_columns_and_one_by_one(
    form: str, look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(f"{form} {look}")
    for _ in range(MIXTURES):
        source: dict[str, Any] = {"format": "debezium", "path": "t"}
        if form == "flattened":
            source["envelope"] = "flattened"
        modes = ["precise", "string", None]
        if mode := random.choice(modes):
            source["decimal_handling_mode"] = mode
        declared = {n: t for n, t in COLUMNS.items() if n == "id" or random.random() < 0.8}
        columns: dict[str, Any] = dict(declared)
        if "name" in declared and random.random() < 0.2:
            columns["name"] = {"type": "string", "nullable": False}
        given = {"table": "t", "keys": ["id"], "source": source, "columns": columns}
        of = Table.model_validate(given)
        records = batch(mixture(random, form))
        found = known(of, records, look)
        if form == "rewritten":
            found = replace(found, envelope="flattened, deletes as rows")
        same(*both_ways(of, found, records, monkeypatch))


FLAT: dict[str, dict[str, Any]] = {
    "rows": {"source": {"format": "rows", "path": "t"}, "sequence_by": "moment"},
    "csv": {"source": {"format": "rows", "path": "t", "file_format": "csv"}},
    "parquet": {"source": {"format": "rows", "path": "t", "file_format": "parquet"}},
    "precise": {"source": {"format": "rows", "path": "t", "decimal_handling_mode": "precise"}},
    "bigquery": {"source": {"format": "bigquery", "path": "t"}},
    "snapshot": {"source": {"format": "snapshot", "path": "t", "mode": "full"}},
    "ydb": {"source": {"format": "ydb", "path": "t"}},
    "ydb images": {"source": {"format": "ydb", "path": "t", "feed_mode": "new_image"}},
}


def flat_row(random: Random, form: str, at: int) -> dict[str, Any]:
    """A row of plain values; of a CSV file all are texts."""
    found = row(random, at) | {
        "total": at / 4, "local": f"2024-05-01T10:00:{at % 60:02}", "day": "2024-05-01",
    }  # fmt: skip
    if form == "csv":
        found = {n: "" if random.random() < 0.05 else str(v).lower() for n, v in found.items()}
    return {name: value for name, value in found.items() if name != "tags" or form != "csv"}


def flat_line(random: Random, form: str, at: int, is_odd: bool) -> dict[str, Any]:
    """A record of a flat format."""
    found = flat_row(random, form, at)
    if form == "bigquery":
        found |= {"_CHANGE_TYPE": random.choice(["UPSERT", "UPSERT", "DELETE"])}
        found |= {"_CHANGE_SEQUENCE_NUMBER": random.choice([f"{at:X}", f"{at}/0", None])}
    if is_odd and not (form.startswith("ydb") and random.random() < 0.4):
        found = disturbed(random, found)
    if not form.startswith("ydb"):
        return found
    key = [found.pop("id", None)]
    made: dict[str, Any] = {"key": key, "ts": [1_700_000_000_000 + at, at]}
    kinds = ["erase", "update", "update", "reset"]
    kind = random.choice(kinds)
    made[kind] = {} if kind == "erase" or "images" in form else found
    if "images" in form and kind != "erase":
        made["newImage"] = found
    if is_odd and random.random() < 0.5:
        name = random.choice(["key", "ts", "update", "erase", "newImage", "oldImage", "resolved"])
        made[name] = random.choice([*ODD, [1], [1, 2], found])
    return made


@pytest.mark.parametrize("form", FLAT)
@pytest.mark.parametrize("look", ["all", "some", "none"])
def test_a_mixture_of_flat_rows_becomes_the_same_by_columns_and_one_by_one(
    form: str, look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(f"{form} {look}")
    for _ in range(MIXTURES):
        declared = {n: t for n, t in COLUMNS.items() if n == "id" or random.random() < 0.8}
        columns: dict[str, Any] = dict(declared)
        if "name" in declared and random.random() < 0.2:
            columns["name"] = {"type": "string", "nullable": False}
        given = {"table": "t", "keys": ["id"], "columns": columns} | FLAT[form]
        if FLAT[form]["source"]["format"] == "rows":
            given["sequence_by"] = "id"
        of = Table.model_validate(given)
        share = random.choice([0.0, 0.03, 0.3])
        lines = []
        for at in range(random.choice([5, 40, 90])):
            is_odd = random.random() < share
            text = json.dumps(flat_line(random, form, at, is_odd), separators=(",", ":"))
            raw = broken(random, text) if is_odd and random.random() < 0.2 else text.encode()
            lines.append({"_raw": raw, "_topic": "t", "_offset": at, "_key": b"1"})
        file = random.choice(["/l/t/2024-05-01/a.json", "/l/t/2024-05-01/name=b/a.json"])
        records = batch(lines, file)
        found = known(of, records, look)
        same(
            *both_ways(
                of, with_fault_column(found) if of.format == "rows" else found, records, monkeypatch
            )
        )


def lines(file: Path) -> list[bytes]:
    """The records of a file, as bronze has them at most."""
    if file.suffix == ".csv":
        rows = csv.DictReader(io.StringIO(file.read_text(errors="replace")))
        return [json.dumps(one, default=str).encode() for one in rows if None not in one]
    return file.read_bytes().splitlines()


@pytest.mark.parametrize("case", sorted(CASES.iterdir()), ids=lambda case: str(case.name))
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("look", ["all", "none"])
def test_a_case_s_records_become_the_same_both_ways(
    case: Path, whole: bool, look: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "t.yml").write_text((case / "table.yml").read_text())
    [of] = load_tables(tmp_path)
    files = [file for file in sorted((case / "input").rglob("*")) if file.is_file()]
    raws = [line for file in files for line in lines(file)]
    records = batch([{"_raw": raw, "_whole": whole} for raw in raws])
    columns = known(of, records, look)
    columns = with_fault_column(columns) if of.format == "rows" else columns
    same(*both_ways(of, columns, records, monkeypatch))
