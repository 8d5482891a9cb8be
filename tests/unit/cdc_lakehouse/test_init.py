"""`lakehouse init`: a project, drafts from a file of any kind, and what it says to do next."""

import bz2
import gzip
import json
import os
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pyarrow.parquet import write_table

from cdc_lakehouse.cli.commands import app
from cdc_lakehouse.cli.front import run_command_line
from cdc_lakehouse.cli.options import Chosen, load_chosen
from cdc_lakehouse.cli.silence import split_unconfirmed
from cdc_lakehouse.drafts.sample import common_type, read_samples
from cdc_lakehouse.drafts.tables_in_files import to_identifier
from lakehouse.config.loading import load_tables, load_target
from lakehouse.errors import ConfigurationError
from tests.helpers.captures import EVENTS


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)


def init(*arguments: str) -> object:
    try:
        run_command_line(app, ["init", *arguments])
    except SystemExit as left:
        return left.code
    return 0


def dropped(name: str, *records: object) -> Path:
    file = Path("landing", "shop", name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return file


def whole(topic: str, key: object, value: object) -> dict[str, object]:
    return {"topic": topic, "offset": 1, "key": key, "value": value}


def change(**after: Any) -> dict[str, object]:
    return {"before": None, "after": after, "op": "c", "source": {}}


def test_an_empty_folder_becomes_a_project(capsys: pytest.CaptureFixture[str]) -> None:
    assert init() == 0
    told = capsys.readouterr().out
    assert "next: lakehouse init --from FILE" in told
    for made in ("conf/targets/local.yml", "conf/table.schema.json", "README.md", "landing"):
        assert Path(made).exists() and f"made {made}" in told
    assert init() == 0
    assert "there is a project already: conf" in capsys.readouterr().out


@pytest.mark.parametrize(("pages", "serves"), [(1, False), (1 << 21, True)])
def test_a_machine_with_enough_memory_keeps_a_spark_ready(
    monkeypatch: pytest.MonkeyPatch, pages: int, serves: bool
) -> None:
    monkeypatch.setattr(os, "sysconf", lambda name: pages if name == "SC_PHYS_PAGES" else 4096)
    assert init() == 0
    assert load_target(Path("conf"), "local").serve == ("auto" if serves else None)


def test_a_folder_that_cannot_be_written_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("conf").write_text("no folder")
    assert init() == 1
    told = capsys.readouterr().err
    assert told.startswith("error: conf/targets: cannot be written\n  found:    Not a directory")


def test_files_that_are_there_are_left_alone() -> None:
    Path("README.md").write_text("mine")
    assert init() == 0
    assert Path("README.md").read_text() == "mine"


def test_every_topic_of_a_capture_becomes_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert init("--from", str(EVENTS / "small_with_schemas.jsonl.gz")) == 0
    told = capsys.readouterr().out
    assert "wrote conf/tables/events.yml" in told
    assert "next: put small_with_schemas.jsonl.gz into landing/events\n" in told
    assert yaml.safe_load(Path("conf/tables/clicks.yml").read_text())["keys"] == []
    run_command_line(app, ["validate"])
    assert "clicks: waits, as its file names no source" in capsys.readouterr().err
    run_command_line(app, ["validate", "--accept", "clicks"])
    assert "clicks: accepted  keys: []" in capsys.readouterr().out
    Path("landing/events").mkdir()
    shutil.copy(EVENTS / "small_with_schemas.jsonl.gz", "landing/events")
    _, tables = load_chosen(Chosen(), [])
    names = [table.table for table in tables]
    assert {"customers", "clicks", "mixed_case", "kitchen_sink"} <= set(names)
    assert not {"transaction", "message", "dbz_signal", "shop"} & set(names)


def test_a_file_below_the_landing_root_is_read_where_it_lies(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = dropped("a.jsonl", whole("s.p.orders", {"id": 1}, change(id=1)))
    assert init("--from", str(file)) == 0
    assert "next: lakehouse validate, then lakehouse run" in capsys.readouterr().out
    (table,) = load_tables(Path("conf"))
    assert (table.table, table.feeds[0].path, table.feeds[0].topic) == (
        "orders",
        "shop",
        "s.p.orders",
    )
    assert "# check" not in Path("conf/tables/orders.yml").read_text()


def test_the_next_step_keeps_the_options_of_this_one(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path("other", "landing", "shop", "a.jsonl")
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(whole("s.t", {"id": 1}, change(id=1))))
    assert init("--from", str(file), "--root", "other") == 0
    told = capsys.readouterr().out
    assert "next: lakehouse validate --root other, then lakehouse run --root other" in told


def test_a_table_that_is_there_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    file = dropped("a.jsonl", whole("s.p.orders", {"id": 1}, change(id=1)))
    assert init("--from", str(file)) == 0
    Path("conf/tables/orders.yml").write_text("mine")
    assert init("--from", str(file)) == 0
    assert "conf/tables/orders.yml is there already" in capsys.readouterr().out
    assert Path("conf/tables/orders.yml").read_text() == "mine"


def test_a_keyless_table_is_drafted() -> None:
    file = dropped("a.jsonl", whole("s.p.clicks", None, change(url="x")))
    assert init("clicks", "--from", str(file)) == 0
    (table,) = load_tables(Path("conf"))
    assert (table.keys, table.columns) == ([], {})
    assert "name no key" in Path("conf/tables/clicks.yml").read_text()


def test_one_table_of_a_capture_is_drafted_by_its_name() -> None:
    records = [whole("s.a", {"x": 1}, change(x=1)), whole("s.b", {"y": 1}, change(y=1))]
    assert init("b", "--from", str(dropped("a.jsonl", *records))) == 0
    (table,) = load_tables(Path("conf"))
    assert table.keys == ["y"]


def test_two_topics_of_one_name_keep_their_schemas() -> None:
    records = [whole("s.a.t", {"x": 1}, change(x=1)), whole("s.b.t", {"y": 1}, change(y=1))]
    assert list(read_samples([dropped("a.jsonl", *records)])) == ["t", "b_t"]


def test_rows_of_csv_are_drafted_with_what_orders_them() -> None:
    file = Path("landing", "prices", "prices.csv")
    file.parent.mkdir(parents=True)
    file.write_text("zip,id,price,updated_at\n01234,1,2.5,2024-01-01\n99999,2,3,2024-01-02\n")
    assert init("--from", str(file)) == 0
    (table,) = load_tables(Path("conf"))
    assert (table.format, table.feeds[0].file_format, table.keys) == ("rows", "csv", ["id"])
    assert table.sequence_by == "updated_at"
    assert {name: column.type for name, column in table.columns.items()} == {
        "zip": "string",
        "id": "bigint",
        "price": "decimal(18,2)",
        "updated_at": "date",
    }


def test_a_file_in_the_folder_of_a_day_is_drafted_as_an_extract(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = Path("elsewhere", "products", "2026-11-01", "part-1.csv")
    file.parent.mkdir(parents=True)
    file.write_text("sku;name;updated_at\nA1;Lamp;2026-10-31\n")
    assert init("--from", str(file)) == 0
    (table,) = load_tables(Path("conf"))
    assert (table.table, table.format, table.keys) == ("products", "snapshot", ["sku"])
    assert (table.feeds[0].path, table.feeds[0].mode) == ("products", "full")
    assert table.sequence_by is None and list(table.columns) == ["sku", "name", "updated_at"]
    assert "put part-1.csv into landing/products/2026-11-01" in capsys.readouterr().out


def test_a_file_of_one_json_array_is_drafted() -> None:
    rows = '[{"id": 1, "seq": 5, "a": "x"},\n {"id": 2, "seq": 6, "a": "y"}]\n'
    file = Path("things.json")
    file.write_text(rows)
    assert init("--from", str(file)) == 0
    (table,) = load_tables(Path("conf"))
    assert (table.format, table.keys, table.sequence_by) == ("rows", ["id"], "seq")


def test_of_names_that_differ_in_case_only_the_first_is_drafted() -> None:
    rows = [{"id": 1, "Name": "a", "seq": 1}, {"ID": 2, "name": "b", "id": 2, "seq": 2, "": 0}]
    file = Path("users.jsonl")
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    assert init("--from", str(file)) == 0
    (table,) = load_tables(Path("conf"))
    assert list(table.columns) == ["id", "Name", "seq"]


def test_flattened_rows_keep_their_own_columns_only() -> None:
    row = {"id": 1, "name": "x", "__op": "c", "__deleted": "false", "__lsn": 7}
    file = dropped("a.jsonl", whole("s.p.people", {"id": 1}, row))
    assert init("--from", str(file)) == 0
    (table,) = load_tables(Path("conf"))
    assert (table.format, table.keys, list(table.columns)) == ("debezium", ["id"], ["id"])
    assert "__" not in Path("conf/tables/people.yml").read_text()


@pytest.mark.parametrize("topic", [None, "s.p.people"])
@pytest.mark.parametrize("value", [change(id=1, name="x"), {"id": 1, "name": "x", "__op": "c"}])
def test_a_key_that_no_record_names_is_a_check(topic: str | None, value: dict[str, object]) -> None:
    record = value if topic is None else whole(topic, None, value)
    assert init("people", "--from", str(dropped("a.jsonl", record))) == 0
    text = Path("conf/tables/people.yml").read_text()
    guessed = "keys: [id]  # check: by names and values, as the records have no key of their own"
    has_none = topic is not None and "op" in value
    assert ("keys: []  # check: the records name no key" if has_none else guessed) in text


@pytest.mark.parametrize("topics", [1, 4])
@pytest.mark.parametrize("snapshot", ["false", None])
def test_a_converter_that_writes_defaults_for_nulls_is_a_check(
    topics: int, snapshot: str | None
) -> None:
    value = change(id=1, name="x") | {"source": {"connector": "postgresql", "snapshot": snapshot}}
    events = [whole(f"s.p.t{number}", {"id": 1}, value) for number in range(topics)]
    assert init("--from", str(dropped("events.jsonl", *events))) == 0
    text = Path("conf/tables", "t0.yml" if topics == 1 else "shop.yml").read_text()
    assert ("replace.null.with.default=false" in text) == (snapshot == "false")


def test_a_row_of_mongodb_is_json_in_a_text() -> None:
    value = {"before": None, "after": '{"_id": {"$oid": "a1"}, "name": "x"}', "op": "c"}
    file = dropped("a.jsonl", whole("m.db.people", {"id": '{"$oid": "a1"}'}, value))
    assert init("--from", str(file)) == 0
    (table,) = load_tables(Path("conf"))
    assert (table.format, table.keys) == ("debezium", ["id"])


@pytest.mark.parametrize(
    ("row", "order"),
    [
        ({"id": 1, "price": 1.5, "made": "2024-01-01T10:00:00Z", "n": 4}, None),
        (
            {"id": 1, "price": 1.5, "ok": True, "lastModifiedDate": "2024-01-01", "n": 4},
            "lastModifiedDate",
        ),
        ({"id": 1, "time_spent": 1.5, "seq": 4}, "seq"),
        ({"id": 1, "time_spent": 4, "updated_by": "me"}, None),
    ],
)
def test_only_what_can_order_changes_is_drafted_as_their_order(
    row: dict[str, object], order: str | None
) -> None:
    assert read_samples([dropped("a.jsonl", row)])["a"].sequence_by == order


def test_a_document_of_mongodb_shows_the_types_of_its_fields() -> None:
    size, price = '{"$numberLong": "5"}', '{"$numberDecimal": "1.50"}'
    document = f'{{"_id": {{"$oid": "a1"}}, "size": {size}, "price": {price}, "in": {{"a": 1}}}}'
    value = {"before": None, "after": document, "op": "c"}
    file = dropped("a.jsonl", whole("m.db.people", {"id": '{"$oid": "a1"}'}, value))
    found = read_samples([file])["people"]
    assert found.columns == {"id": "string"}
    assert found.guessed == {"size": "bigint", "price": "double", "in": "string"}


def test_a_file_whose_name_is_a_number_gives_the_table_its_folders_name() -> None:
    file = dropped("1.jsonl", {"id": 1, "seq": 1})
    assert list(read_samples([file])) == ["shop"]
    assert list(read_samples([dropped("people.jsonl", {"id": 1, "seq": 1})])) == ["people"]


def test_a_parquet_file_gives_its_own_types(capsys: pytest.CaptureFixture[str]) -> None:
    file = dropped("pay.parquet")
    at = pa.array([0], pa.timestamp("us", tz="UTC"))
    total = pa.array([Decimal("1.10")], pa.decimal128(10, 2))
    columns = {"id": pa.array([1], pa.int32()), "total": total, "changed_at": at}
    columns["opens"] = pa.array([0], pa.time64("us"))
    write_table(pa.table(columns), file)
    assert init("--from", str(file)) == 0
    (table,) = load_tables(Path("conf"))
    assert (table.feeds[0].file_format, table.keys, table.sequence_by) == (
        "parquet",
        ["id"],
        "changed_at",
    )
    types = {name: column.type for name, column in table.columns.items()}
    assert types.pop("opens") == "string"
    assert types == {"id": "int", "total": "decimal(10,2)", "changed_at": "timestamp"}
    file.write_bytes(file.read_bytes()[:30])
    assert init("pay2", "--from", str(file)) == 2
    assert "no Parquet" in capsys.readouterr().err


def test_a_compressed_file_without_its_end_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path("a.jsonl.gz")
    file.write_bytes(gzip.compress(b'{"id": 1}')[:12])
    assert init("--from", str(file)) == 2
    assert "wait until it is written" in capsys.readouterr().err


def test_packed_csv_is_read_and_what_is_no_csv_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = b"id,v\n1,a\n2,b\n"
    packed = {"a.csv.bz2": bz2.compress(text), "b.CSV.GZ": gzip.compress(text), "c.csv": b"a\r1\r"}
    for name, content in packed.items():
        Path(name).write_bytes(content)
    assert init("--from", "a.csv.bz2") == 0
    assert load_tables(Path("conf"))[0].keys == ["id"]
    assert init("--from", "b.CSV.GZ") == 2
    said = "found:    the file is compressed with gzip, expected CSV\n"
    told = capsys.readouterr().err
    assert said in told and "do:       give its name the ending .gz\n" in told
    assert init("--from", "c.csv") == 2
    assert "found:    no CSV: new-line character" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "encoding", "wanted"),
    [
        ("Zoë", "latin-1", "windows-1252"),
        ("\x81 ë", "latin-1", "ISO-8859-1"),
        ("5 €", "cp1252", "windows-1252"),
        ("Zoë", "utf-8-sig", None),
        ("Zoë", "utf-16", None),
        ("Zoë", "utf-16-le", None),
    ],
)
def test_a_csv_file_in_another_encoding_is_drafted_with_it(
    name: str, encoding: str, wanted: str | None
) -> None:
    file = Path("a.csv")
    file.write_bytes(f"id,name\n1,{name}\n".encode(encoding))
    assert init("--from", str(file)) == 0
    [table] = load_tables(Path("conf"))
    assert (table.keys, table.feeds[0].csv.encoding) == (["id"], wanted)


def test_a_byte_that_an_encoding_lacks_far_behind_stops_no_draft() -> None:
    rows = "".join(f"{number},{'x' * 300}\n" for number in range(4_000))
    Path("a.csv").write_bytes(f"id,name\n0,ë\n{rows}-1,\x81\n".encode("latin-1"))
    assert init("--from", "a.csv") == 0
    [table] = load_tables(Path("conf"))
    assert table.feeds[0].csv.encoding == "windows-1252"


@pytest.mark.parametrize("rows", ['"id" ; "first name" \n1;a\n', "id, first name\n1, a\n"])
def test_the_names_in_a_csv_header_are_those_that_a_run_reads(rows: str) -> None:
    file = Path("a.csv")
    file.write_text(rows)
    assert init("--from", str(file)) == 0
    [table] = load_tables(Path("conf"))
    types = {name: column.type for name, column in table.columns.items()}
    assert types == {"id": "bigint", "first name": "string"}


def test_drafts_that_are_all_there_say_how_to_write_them_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = dropped("a.jsonl", whole("s.t", {"id": 1}, change(id=1)))
    init("--from", str(file))
    assert init("--from", str(file)) == 0
    told = capsys.readouterr().out
    assert f"lakehouse init TABLE --from {file}" in told


def test_a_guessed_column_that_looks_encoded_is_written_with_its_type() -> None:
    row = {"id": 1, "at": 1_704_164_645_000, "total": "AYY=", "qty": 3}
    assert init("--from", str(dropped("a.jsonl", whole("s.p.t", {"id": 1}, change(**row))))) == 0
    text = Path("conf/tables/t.yml").read_text()
    assert "  # at: timestamp  # check: looks like milliseconds since 1970" in text
    assert "  # total: decimal(…) or binary  # check: looks like base64" in text
    assert "  # qty: bigint\n" in text


def test_deletes_of_plain_records_show_the_key() -> None:
    gone = {"before": {"sku": "a", "name": None}, "after": None, "op": "d", "source": {}}
    file = dropped("products.jsonl", change(name="x", sku="a"), gone)
    assert read_samples([file])["products"].keys == ["sku"]


def test_a_column_of_two_types_is_declared_with_one_that_holds_both() -> None:
    def typed(kind: str) -> dict[str, object]:
        fields = [{"field": "id", "type": "int64"}, {"field": "a", "type": kind}]
        schema = {"fields": [{"field": "after", "type": "struct", "fields": fields}]}
        return whole("s.t", {"id": 1}, {"schema": schema, "payload": change(id=1, a=1)})

    found = read_samples([dropped("a.jsonl", typed("int32"), typed("string"))])["t"]
    assert (found.columns, found.guessed) == ({"id": "bigint", "a": "string"}, {})


def test_undeclared_values_of_two_kinds_are_declared_as_text() -> None:
    records = [whole("s.t", {"id": 1}, change(id=1, a=a, b=b)) for a, b in (("x", 1), (2, 2.5))]
    found = read_samples([dropped("a.jsonl", *records)])["t"]
    assert (found.columns, found.guessed) == ({"id": "bigint", "a": "string"}, {"b": "double"})


@pytest.mark.parametrize(
    ("kinds", "kind"),
    [
        (["int"], "int"),
        (["int", "bigint", "smallint"], "bigint"),
        (["float", "double"], "double"),
        (["decimal(10,2)", "decimal(8,4)"], "decimal(12,4)"),
        (["bigint", "decimal(10,2)"], "decimal(21,2)"),
        (["decimal(38,0)", "decimal(38,10)"], "string"),
        (["int", "string"], "string"),
        (["date", "timestamp_ntz"], "timestamp_ntz"),
    ],
)
def test_one_type_holds_several(kinds: list[str], kind: str) -> None:
    assert common_type(kinds) == kind


@pytest.mark.parametrize(
    ("text", "name"), [("Mixed_Case", "mixed_case"), ("7 up", "t_7_up"), ("Ä-b", "b")]
)
def test_a_name_of_any_kind_becomes_one_of_a_table(text: str, name: str) -> None:
    assert to_identifier(text) == name


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["orders"], "--from FILE or --source URL"),
        (["--from", "a.jsonl", "--source", "postgresql://h/d"], "leave one out"),
        (["--from", "nowhere.jsonl"], "No such file"),
        (["--from", "."], "a folder with .csv, .json"),
        (["--source", "sqlite:///a.db"], "postgresql, mysql or mariadb"),
        (["--source", "nonsense"], "an SQLAlchemy URL"),
    ],
)
def test_wrong_usage_says_what_to_do(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(*arguments) == 2
    assert said in capsys.readouterr().err


def test_a_file_without_a_table_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert init("--from", str(dropped("a.jsonl", whole("heartbeat", {}, {"ts_ms": 1})))) == 2
    assert "no record of a table" in capsys.readouterr().err


def test_records_as_kcat_writes_them_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    origin = {"topic": "s.p.orders", "partition": 0, "offset": 1, "ts": 1, "key": '{"id": 1}'}
    texts = [json.dumps(change(id=at, name="a")) for at in (1, 2)]
    file = dropped("a.jsonl", *[origin | {"payload": text} for text in texts])
    assert init("--from", str(file)) == 0
    drafted = Path("conf/tables/orders.yml").read_text()
    assert "format: debezium" in drafted and "keys: [id]" in drafted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"id":1}\t{"op":"c"}\n', "kcat -J"),
        ("Struct{id=1}\n", "StringConverter"),
        ('{"topic":"t","offset":1,"value":"no JSON"}\n', "no record of a table"),
        ('{"Item":{"id":{"N":"7"},"name":{"S":"a"}}}\n', "records of DynamoDB"),
        ('{"eventID":"1","dynamodb":{"Keys":{"id":{"N":"7"}}}}\n', "records of DynamoDB"),
        ('{"topic":"t","offset":1,"payload":"x","_a":1}\n{"_b":null}\n', "no record of a table"),
    ],
)
@pytest.mark.parametrize("table", [[], ["orders"]])
def test_a_file_of_another_form_is_told(
    table: list[str], text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = dropped("a.jsonl")
    file.write_text(text)
    assert init(*table, "--from", str(file)) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["2024-01-01", "2024-01-02"], "date"),
        (["2024-01-01T10:00:00Z", "2024-01-02 11:00:00"], "timestamp"),
        (["0000000000000009", "000000000000000A"], "string"),
    ],
)
def test_a_column_of_times_that_orders_changes_is_drafted_as_such(
    tmp_path: Path, times: list[str], expected: str
) -> None:
    sample = tmp_path / "prices.csv"
    rows = [f"{at},{time}" for at, time in enumerate(times)]
    sample.write_text("\n".join(["id,updated_at", *rows, ""]))
    (found,) = read_samples([sample]).values()
    assert (found.sequence_by, found.columns["updated_at"]) == ("updated_at", expected)


def written(name: str, *lines: str) -> Path:
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


PRODUCTS = (
    "sku,stock,price,discontinued,listed",
    "a1,12,2.50,true,2024-01-01",
    "b2,11,3,false,2024-02-01",
)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("landing/products/2026-11-23.csv", "landing/products/2026-11-23"),
        ("landing/products/products_20261123.csv", "landing/products/2026-11-23"),
        ("landing/products/products_20261231_20261123.csv", "landing/products/2026-11-23"),
        ("landing/products/products.csv", "landing/products/YYYY-MM-DD, the day that it shows"),
    ],
)
def test_rows_that_nothing_orders_are_an_extract_of_a_day(
    name: str, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init("--from", str(written(name, *PRODUCTS))) == 0
    (table,) = load_tables(Path("conf"))
    assert (table.table, table.format, table.keys) == ("products", "snapshot", ["sku"])
    assert (table.feeds[0].path, table.sequence_by) == ("products", None)
    types = {column: declared.type for column, declared in table.columns.items()}
    assert types == {
        "sku": "string",
        "stock": "bigint",
        "price": "decimal(18,2)",
        "discontinued": "boolean",
        "listed": "date",
    }
    assert f"next: put {Path(name).name} into {place}\n" in capsys.readouterr().out


def test_two_extracts_of_a_day_are_said_to_be_one(capsys: pytest.CaptureFixture[str]) -> None:
    for hour in (6, 18):
        written(f"landing/stock/stock_20261101_{hour:02}00.csv", "sku,n", f"a1,{hour}")
    assert init("--from", "landing") == 0
    told = " ".join(capsys.readouterr().out.split())
    both = "stock_20261101_0600.csv, stock_20261101_1800.csv into landing/stock/2026-11-01;"
    assert f"put {both} files of one day are one snapshot: of two, only the newer" in told


def maxwell(table: str, **row: object) -> dict[str, object]:
    return {"database": "s", "table": table, "type": "insert", "ts": 1, "data": row}


@pytest.mark.parametrize("topic", [None, "maxwell"])
def test_records_of_several_tables_that_name_theirs_become_a_table_each(topic: str | None) -> None:
    changes = [maxwell("orders", id=1, total=5), maxwell("customers", id=1, name="Ann")]
    records = changes if topic is None else [whole(topic, None, each) for each in changes]
    file = dropped("1.jsonl", *records)
    assert init("--from", str(file)) == 0
    tables = {table.table: table.feeds[0] for table in load_tables(Path("conf"))}
    assert {name: feed.path for name, feed in tables.items()} == {
        "orders": "shop",
        "customers": "shop",
    }
    assert tables["orders"].where == "`database` = 's' AND `table` = 'orders'"
    assert tables["customers"].where == "`database` = 's' AND `table` = 'customers'"


@pytest.mark.parametrize(("topic", "name"), [(None, "shop"), ("maxwell", "orders")])
def test_a_table_that_records_name_is_kept_apart_from_those_to_come(
    topic: str | None, name: str
) -> None:
    change = maxwell("orders", id=1)
    record = change if topic is None else whole(topic, None, change)
    assert init("--from", str(dropped("1.jsonl", record))) == 0
    (table,) = load_tables(Path("conf"))
    said = "`database` = 's' AND `table` = 'orders'"
    assert (table.table, table.feeds[0].where) == (name, said)


@pytest.mark.parametrize(
    "events",
    [
        [change(id=1) | {"source": {"table": name}} for name in ("orders", "customers")],
        [{"id": 1, "__op": "c", "__table": name} for name in ("orders", "customers")],
    ],
)
def test_events_of_several_tables_that_nothing_tells_apart_are_refused(
    events: list[dict[str, object]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert init("--from", str(dropped("1.jsonl", *events))) == 2
    assert "events of orders, customers" in capsys.readouterr().err


def test_a_column_called_source_names_no_table() -> None:
    rows = [{"id": n, "version": n, "source": {"table": f"t{n}"}} for n in range(2)]
    assert list(read_samples([dropped("1.jsonl", *rows)])) == ["shop"]


def test_changes_without_an_order_leave_it_open_for_validate_to_ask(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = ["id,qty,op", "1,5,I", "1,6,U", "2,1,I", "2,1,D"]
    assert init("--from", str(written("landing/stock/1.csv", *rows))) == 0
    text = Path("conf/tables/stock.yml").read_text()
    assert "# sequence_by:  # check: name the column that orders a key's changes" in text
    assert """apply_as_deletes: "upper(trim(op)) IN ('D', 'DELETE', 'DELETED')"  # check""" in text
    assert "\napply_as_upserts: \"upper(trim(op)) IN ('I', " in text
    capsys.readouterr()
    with pytest.raises(SystemExit):
        run_command_line(app, ["validate"])
    assert "sequence_by" in capsys.readouterr().err


def test_keys_are_no_columns_that_the_files_own_updates_change_and_none_that_are_null() -> None:
    row = {"name": "a", "id": 1, "email": "x", "note": None}
    events = [
        {"before": None, "after": row, "op": "c", "source": {}},
        {"before": row, "after": {**row, "name": "b"}, "op": "u", "source": {}},
        {"before": {**row, "name": "b"}, "after": None, "op": "d", "source": {}},
    ]
    assert read_samples([dropped("people.jsonl", *events)])["people"].keys == ["id"]


def test_a_folder_gives_a_table_per_topic_and_kind_of_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    dropped("1.jsonl", whole("s.p.orders", {"id": 1}, change(id=1)))
    dropped("2.jsonl", whole("s.p.orders", {"id": 2}, change(id=2, total=5)))
    written("landing/products/2026-11-23/all.csv", *PRODUCTS)
    written("landing/products/2026-11-24/all.csv", *PRODUCTS[:2], "b2,11,3,false,2024-02-02")
    written("landing/rates/rates.csv", "currency,rate,updated_at", "EUR,1.1,2026-01-01")
    written("landing/rates/places.csv", "id,name", "1,here", "2,there")
    written("landing/.hidden", "x")
    assert init("--from", "landing") == 0
    tables = {table.table: table for table in load_tables(Path("conf"))}
    found = {name: (table.format, table.feeds[0].path) for name, table in tables.items()}
    assert found == {
        "orders": ("debezium", "shop"),
        "products": ("snapshot", "products"),
        "places": ("snapshot", "rates/places"),
        "rates": ("rows", "rates/rates"),
    }
    assert tables["products"].keys == ["sku"]
    assert "next: put rates.csv into landing/rates/rates\n" in capsys.readouterr().out


def test_every_file_of_a_folder_is_named_whatever_the_case_and_order_of_its_header(
    capsys: pytest.CaptureFixture[str],
) -> None:
    written("landing/late/1.csv", "id,v,w,updated_at", "1,a,,2026-01-01")
    written("landing/late/2.csv", "updated_at,v,id,W", "2026-01-02,b,1,x")
    written("landing/late/3.csv", "id,v,w,updated_at", "2,a,y,2026-01-03")
    written("landing/late/4.csv", "id,v,updated_at,neu", "3,a,2026-01-04,z")
    written("landing/late/5.csv", "id,neuer,updated_at", "3,a,2026-01-04")
    written("landing/late/6.csv")
    written("landing/late/7.csv", "id,v,w,updated_at")
    assert init("--from", "landing") == 0
    tables = {t.table: [*t.columns, t.sequence_by] for t in load_tables(Path("conf"))}
    assert tables == {
        "late": ["id", "v", "w", "updated_at", "updated_at"],
        "late_late": ["id", "v", "updated_at", "neu", "updated_at"],
        "late_late_2": ["id", "neuer", "updated_at", "updated_at"],
    }
    told = " ".join(capsys.readouterr().out.split())
    assert "next: put 1.csv, 2.csv, 3.csv into landing/late/late " in told
    assert "next: put 4.csv into landing/late/late_late " in told
    assert "next: put 5.csv into landing/late/late_late_2 " in told
    assert "left out, as no record of a table: landing/late/6.csv, landing/late/7.csv " in told


def test_files_left_out_by_their_endings_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    rows = ("id,v,updated_at", "1,a,2026-01-01")
    written("landing/big/1.CSV", *rows)
    for name in ("a/1.txt", "b/2026-01-01/1.tsv", "b/2026-01-02/1.tsv", "b/3.tmp", "big/2.dat"):
        written(f"landing/{name}", *rows)
    assert init("--from", "landing") == 0
    assert [table.table for table in load_tables(Path("conf"))] == ["big"]
    told = capsys.readouterr().out
    assert all(len(line) <= 80 for line in told.splitlines())
    named = "landing/a/1.txt, landing/b/2026-01-01/1.tsv and 1 more there, landing/big/2.dat"
    assert f"left out by their endings (`run` reads any): {named} do: rename them" in " ".join(
        told.split()
    )
    assert init("--from", "landing/b") == 2
    assert "found:    landing/b/2026-01-01/1.tsv and 1 more there\n" in capsys.readouterr().err
    for table in ([], ["t"]):
        assert init(*table, "--from", "landing/a/1.txt") == 2
        assert "found:    the ending .txt, and no JSON\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "asks"),
    [
        (("1;Ada;2026-11-01", "2;Bo;2026-11-02"), "csv: {header: false}"),
        (("K-0001,Ada", "K-0002,Bo"), "csv: {header: false}"),
        (("name;01.11.2026", "Ada;30.11.2026"), "csv: {header: false}"),
        (("Bericht vom 01.11.2026", "", "id;name", "1;a"), "csv:"),
        (("Bericht;;", "id;name;v", "1;a;b"), "csv:"),
        (("id;note", "1;a, b, c, d, e"), None),
        (("", "id;address1", "1;a"), None),
        (("note", "a"), None),
    ],
)
def test_a_first_line_that_may_be_no_header_is_asked_about(
    rows: tuple[str, ...], asks: str | None
) -> None:
    text = drafted(*rows)
    assert [line.partition("  # check")[0] for line in text.splitlines() if "# csv" in line] == (
        [f"  # {asks}"] if asks else []
    )


def test_a_folder_without_any_record_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    written("landing/late/6.csv")
    written("landing/late/7.csv", "id,v,w,updated_at")
    assert init("--from", "landing") == 2
    assert "no record of a table" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("files", "tables"),
    [
        (["landing/orders/a.json"], {"orders": "orders"}),
        (
            ["landing/shop/orders/part-1.json", "landing/shop/orders/b.json"],
            {"orders": "shop/orders"},
        ),
        (["landing/orders/2026-01-31/a.json"], {"orders": "orders"}),
        (["landing/a.json"], {"a": "a"}),
        (["elsewhere/orders/a.json"], {"a": "orders"}),
    ],
)
def test_a_folder_below_the_landing_root_names_its_table(
    files: list[str], tables: dict[str, str]
) -> None:
    for name in files:
        file = written(name, '{"id": 1, "updated_at": "2026-01-31T00:00:00Z"}')
        assert init("--from", str(file)) == 0
    found = {table.table: table.feeds[0].path for table in load_tables(Path("conf"))}
    assert found == tables


def test_a_table_of_a_folder_can_be_drafted_by_the_folders_name() -> None:
    for folder in ("orders", "people"):
        written(f"landing/{folder}/a.json", f'{{"id": 1, "seq": 1, "{folder}": 2}}')
    assert init("people", "--from", "landing") == 0
    (table,) = load_tables(Path("conf"))
    assert (table.table, list(table.columns)) == ("people", ["id", "seq", "people"])


def test_a_value_that_is_a_text_of_json_is_read() -> None:
    record = whole("s.t", json.dumps({"id": 1}), json.dumps(change(id=1, qty=2)))
    found = read_samples([dropped("a.jsonl", record)])["t"]
    assert (found.format, found.keys, found.guessed) == ("debezium", ["id"], {"qty": "bigint"})
    with pytest.raises(ConfigurationError, match="no record of a table"):
        read_samples([dropped("b.jsonl", {"value": "no JSON"})])


def test_a_guess_that_decides_rows_keeps_a_table_from_being_run_until_it_is_accepted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = "a,1,2026-01-01"
    assert init("--from", str(written("landing/x/x.csv", "code,qty,updated_at", row))) == 0
    capsys.readouterr()
    run_command_line(app, ["validate"])
    assert "x: 3 lines with '# check' in its YAML to look at" in capsys.readouterr().out
    with pytest.raises(SystemExit) as left:
        run_command_line(app, ["run"])
    told = capsys.readouterr().err
    assert left.value.code == 1
    assert "x: keys and sequence_by in its YAML are guessed and not confirmed" in told
    assert "do: look at conf/tables/x.yml, then lakehouse validate --accept x" in told
    run_command_line(app, ["validate", "--accept", "x"])
    accepted = capsys.readouterr().out
    assert "x: accepted  keys: [code]\n" in accepted
    assert "x: accepted  sequence_by: updated_at  # changes of one day are a tie\n" in accepted
    assert "# check" not in Path("conf/tables/x.yml").read_text()
    assert load_tables(Path("conf"))[0].keys == ["code"]
    assert split_unconfirmed(Path("conf"), load_tables(Path("conf")))[1] == []


def drafted(*lines: str, name: str = "landing/x/x.csv") -> str:
    assert init("--from", str(written(name, *lines))) == 0
    return Path("conf/tables/x.yml").read_text()


@pytest.mark.parametrize("column", ["status", "Gelöscht?"])
def test_what_may_delete_is_a_check_that_keeps_the_table_from_being_run(
    column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = drafted(f"id,{column},updated_at", "1,weg,2026-01-01", "2,,2026-01-02")
    line = f"# apply_as_deletes:  # check: {column} has 'weg'; such rows stay"
    assert line in text and "\napply_as_deletes" not in text
    for mark in ("keys: [id]", "sequence_by: updated_at"):
        before, _, after = text.partition(mark)
        text = f"{before}{mark}\n{after.partition(chr(10))[2]}"
    Path("conf/tables/x.yml").write_text(text)
    tables = load_tables(Path("conf"))
    [refused] = split_unconfirmed(Path("conf"), tables)[1]
    assert "apply_as_deletes in its YAML is guessed" in str(refused)
    run_command_line(app, ["validate", "--accept", "x"])
    assert split_unconfirmed(Path("conf"), tables)[1] == []
    told = capsys.readouterr().out
    assert f"x: accepted  # apply_as_deletes:  # {column} has 'weg'; such rows stay" in told


def test_a_snapshot_says_that_rows_with_signs_of_deletes_stay() -> None:
    rows = ("id,is_deleted", "1,true", "2,false")
    text = drafted(*rows, name="landing/x/2026-11-01/x.csv")
    note = "is_deleted says that 1 of 2 rows is a delete; such rows stay"
    assert f"# apply_as_deletes:  # check: {note}" in text
    assert "mode: full  # check: rows that the files of a day lack are deleted; else delta" in text


def test_a_type_that_was_only_guessed_is_said_so() -> None:
    said = "\ncolumns:  # check: types and digits by the values; numbers lose leading zeros\n"
    assert said in drafted("id,zip", "1,10115")
    Path("conf/tables/x.yml").unlink()
    assert "types and digits by the values" in drafted('{"id": 1, "n": 2}', name="landing/x/x.json")
    record = whole("s.p.y", {"id": 1}, change(id=1, qty=2))
    assert init("--from", str(dropped("a.jsonl", record))) == 0
    hint = "  # check: seen, but not declared; declare decimals, dates and times\n  # qty: bigint"
    assert hint in Path("conf/tables/y.yml").read_text()


def test_a_table_without_a_key_names_the_command_that_confirms_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert init("--from", str(dropped("a.jsonl", whole("s.clicks", None, change(url="x"))))) == 0
    told = " ".join(capsys.readouterr().out.split())
    accept = "`lakehouse validate --accept clicks`"
    assert f"`run` refuses clicks until its lines are confirmed: {accept}" in told


def test_the_way_a_number_or_an_encoding_is_read_is_said() -> None:
    text = drafted("id;stock", "1;1,234", "2;5,678")
    assert "csv: {decimal_comma: true}  # check: 1,234 is read as 1.234" in text
    Path("conf/tables/x.yml").unlink()
    Path("landing/x/x.csv").write_bytes("id,name\n1,Zoë\n".encode("latin-1"))
    assert init("--from", "landing/x/x.csv") == 0
    text = Path("conf/tables/x.yml").read_text()
    letters = "the file is no UTF-8: compare letters"
    assert f"csv: {{encoding: windows-1252}}  # check: {letters}" in text
    Path("conf/tables/x.yml").unlink()
    Path("landing/x/x.csv").write_bytes("id;name;v\n1;Zoë;1,5\n".encode("latin-1"))
    assert init("--from", "landing/x/x.csv") == 0
    text = Path("conf/tables/x.yml").read_text()
    assert f"decimal_comma: true}}  # check: {letters}; 1,5 is read as 1.5\n" in text


def test_folders_that_are_columns_belong_to_the_table_above_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for region in ("eu", "us"):
        row = f"1,{region},2026-01-01"
        written(f"landing/b22/region={region}/y=1/1.csv", "id,v,updated_at", row)
    written("landing/p/2026-01-31/region=eu/a.csv", "id,v", "1,a")
    written("landing/p/2026-01-31/region=us/a.csv", "id,v", "2,a")
    written("elsewhere/q/region=eu/a.csv", "id,v,updated_at", "1,a,2026-01-01")
    assert init("--from", "landing", "--from", "elsewhere") == 0
    tables = {table.table: table for table in load_tables(Path("conf"))}
    found = {name: (table.format, table.feeds[0].path) for name, table in tables.items()}
    assert found == {"b22": ("rows", "b22"), "p": ("snapshot", "p"), "q": ("rows", "q")}
    types = {name: column.type for name, column in tables["b22"].columns.items()}
    wanted = {"id": "bigint", "v": "string", "updated_at": "date"}
    assert types == {**wanted, "region": "string", "y": "string"}
    note = "rows of another region/y have the same id\n"
    assert note in Path("conf/tables/b22.yml").read_text()
    assert "keys: [id]  # check\n" in Path("conf/tables/p.yml").read_text()
    told = capsys.readouterr().out
    assert "next: put a.csv into landing/q/region=eu\n" in told and told.count("next: put") == 1


def test_folders_that_are_columns_above_the_table_do_not_count() -> None:
    file = written("env=test/orders/1.csv", "id,v,updated_at", "1,a,2026-01-01")
    assert list(read_samples([file])["orders"].columns) == ["id", "v", "updated_at"]


def test_whoever_reads_only_the_first_line_leaves_a_whole_project_behind() -> None:
    command = [sys.executable, "-m", "cdc_lakehouse", "init", "--bundle", "p"]
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert ended.stderr == ""
    assert Path("p/databricks.yml").is_file() and Path("p/.lakehouse/generated.json").is_file()


def test_validate_asks_of_a_key_that_is_called_nearly_as_a_column(
    capsys: pytest.CaptureFixture[str],
) -> None:
    init()
    source = "source: {format: debezium, path: shop}"
    written("conf/tables/t.yml", "table: t", source, "keys: [oder_id]", "columns: {order_id: int}")
    run_command_line(app, ["validate"])
    assert "t: keys: oder_id: did you mean order_id?" in capsys.readouterr().err
