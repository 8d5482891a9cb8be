import gzip
import json
from pathlib import Path

import pytest
import yaml

from cdc_lakehouse.drafts.delete_signs import find_delete_signs
from cdc_lakehouse.drafts.sample import Sample, read_sample
from lakehouse.errors import ConfigurationError

ONE_NULL = "null in 1 row, which becomes a dead letter"
CASES = Path(__file__).parents[2] / "fixtures" / "cases"


def sample_of(folder: Path, *records: object, table: str = "t") -> Sample:
    file = folder / "events.jsonl"
    file.write_text("\n".join(json.dumps(record) for record in records))
    return read_sample([file], table)


def operations(column: str, *more: str) -> str:
    """The condition of deletes by a column of operations."""
    listed = ", ".join(f"'{word}'" for word in ("D", "DELETE", "DELETED", *more))
    return f"upper(trim({column})) IN ({listed})"


def change(**after: object) -> dict[str, object]:
    return {"before": None, "after": after, "op": "c", "source": {}}


def whole(topic: str, key: object, value: object) -> dict[str, object]:
    return {"topic": topic, "offset": 1, "key": key, "value": value}


def test_a_debezium_record_gives_keys_by_its_own_key(tmp_path: Path) -> None:
    found = sample_of(tmp_path, whole("s.t", {"b": 1, "a": 2}, change(a=2, b=1, c="x")))
    assert (found.format, found.topic, found.keys) == ("debezium", "s.t", ["b", "a"])


@pytest.mark.parametrize("case", sorted(CASES.glob("preset_*")), ids=lambda case: case.name)
def test_records_of_a_vendors_format_are_recognised(case: Path) -> None:
    table = yaml.safe_load((case / "table.yml").read_text())
    found = read_sample([*(case / "input" / "1").rglob("*.*")], "t")
    assert (found.format, found.keys, found.topic) == (
        table["source"]["format"],
        table["keys"],
        None,
    )


def test_files_of_dms_have_its_order_and_types(tmp_path: Path) -> None:
    file = tmp_path / "20231114.csv"
    file.write_text("Op,ts,id,qty\nI,2023-11-14 22:13:21.5,1,2\n")
    found = read_sample([file], "t")
    assert (found.format, found.sequence_by) == ("dms", "cast(ts AS timestamp)")
    assert found.columns == {"ts": "timestamp", "id": "bigint", "qty": "bigint"}
    order = "LOAD files have the time of transfer, later than changes during the load"
    assert found.notes["sequence_by"] == order

    file.write_text("Op,ts,id\nX,2023-11-14 22:13:21.5,1\nD,2023-11-14 22:13:22,1\n")
    assert read_sample([file], "t").format == "rows"  # an Op of somebody else


def test_csv_of_a_vendors_format_has_the_types_of_its_texts(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("id,qty,_fivetran_synced,_fivetran_deleted\n1,2,2023-11-14T22:13:21Z,false\n")
    found = read_sample([file], "t")
    assert (found.format, found.file_format) == ("fivetran", "csv")
    assert found.notes == {"keys": "by names and values, as the records have no key of their own"}
    assert found.columns == {"id": "bigint", "qty": "bigint"}


def test_columns_of_schemaless_debezium_are_only_guessed(tmp_path: Path) -> None:
    found = sample_of(tmp_path, whole("s.t", {"id": 1}, change(id=1, price="AA==")))
    assert (found.columns, found.guessed) == ({"id": "bigint"}, {"price": "string"})


def test_a_schema_block_gives_the_columns_types(tmp_path: Path) -> None:
    decimal = {"connect.decimal.precision": "12", "scale": "2"}
    name = "org.apache.kafka.connect.data.Decimal"
    fields = [
        {"field": "id", "type": "int64"},
        {"field": "price", "type": "bytes", "name": name, "parameters": decimal},
    ]
    schema = {"fields": [{"field": "after", "type": "struct", "fields": fields}]}
    value = {"schema": schema, "payload": change(id=1, price="AA==")}
    found = sample_of(tmp_path, whole("s.t", {"schema": {}, "payload": {"id": 1}}, value))
    assert found.columns == {"id": "bigint", "price": "decimal(12,2)"}
    assert found.keys == ["id"]


def test_of_several_topics_the_tables_own_is_read(tmp_path: Path) -> None:
    others = [whole("s.a", {"x": 1}, change(x=1)), whole("heartbeat", {}, {"ts_ms": 1})]
    found = sample_of(tmp_path, *others, whole("s.T", {"id": 1}, change(id=1)))
    assert (found.topic, found.keys) == ("s.T", ["id"])


def test_several_topics_and_none_of_the_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"topics s\.a, s\.b"):
        sample_of(tmp_path, whole("s.a", {}, change(x=1)), whole("s.b", {}, change(x=1)))


def test_a_ydb_record_counts_its_key_columns(tmp_path: Path) -> None:
    found = sample_of(tmp_path, {"key": [1, "one"], "update": {"payload": "lorem"}})
    assert (found.format, found.keys, found.columns) == (
        "ydb",
        ["key_1", "key_2"],
        {"key_1": "bigint", "key_2": "string"},
    )


def test_a_bigquery_delete_shows_the_key(tmp_path: Path) -> None:
    upsert = {"Name": "x", "ID": 1, "_CHANGE_TYPE": "UPSERT"}
    found = sample_of(tmp_path, upsert, {"ID": 100, "_CHANGE_TYPE": "DELETE"})
    assert (found.format, found.keys, found.columns) == (
        "bigquery",
        ["ID"],
        {"Name": "string", "ID": "bigint"},
    )


def test_flat_rows_show_order_and_deletes(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv.gz"
    file.write_bytes(gzip.compress(b"id,total,operation,version\n1,2.5,INSERT,1\n1,,DELETE,2\n"))
    found = read_sample([file], "t")
    assert (found.format, found.file_format, found.keys, found.sequence_by) == (
        "rows",
        "csv",
        ["id"],
        "version",
    )
    assert found.deletes is not None and found.deletes.is_operation
    assert (found.deletes.condition, found.deletes.note) == (
        operations("operation"),
        "1 of 2 rows is a delete",
    )
    assert found.deletes.upserts == "upper(trim(operation)) IN ('I', 'INSERT', 'U', 'UPDATE')"
    assert found.columns["total"] == "decimal(18,2)"


@pytest.mark.parametrize(
    ("texts", "note"),
    [
        (["1", "2", "Total"], "text because of 'Total'"),
        (["1", "", "NULL"], "'NULL' is a text; source.csv.nullValue makes it null"),
        (["a", "b", "\\N"], "'\\\\N' is a text; source.csv.nullValue makes it null"),
        (["2026-11-01", "2026-11-02", "soon"], "text because of 'soon'"),
        (["1.000", "2", "3"], "1.000 may be 1000"),
        (["a", "b", "3"], None),
        (["1", "2026-11-01"], None),
        (["1", "2"], None),
    ],
)
def test_a_text_among_other_values_is_a_check(
    tmp_path: Path, texts: list[str], note: str | None
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("id,v,version\n" + "".join(f"{n},{v},1\n" for n, v in enumerate(texts)))
    assert read_sample([file], "t").notes.get("columns.v") == note


def test_seconds_and_milliseconds_in_one_order_are_a_check(tmp_path: Path) -> None:
    seconds, milliseconds = {"id": 1, "ts": 1793700000}, {"id": 1, "ts": 1793700000000}
    noted = sample_of(tmp_path, seconds, milliseconds).notes["sequence_by"]
    assert noted == "10 and 13 digits, as seconds and milliseconds have"
    assert "sequence_by" not in sample_of(tmp_path, milliseconds, {"id": 2, "ts": 99}).notes


def test_a_file_without_a_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no record"):
        sample_of(tmp_path, 1, "x")


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({"type": "int32", "name": "io.debezium.time.Date"}, "date"),
        ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, "timestamp_ntz"),
        ({"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, "timestamp"),
        ({"type": "int64", "name": "io.debezium.time.MicroTime"}, "string"),
        ({"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}, "string"),
        ({"type": "array", "items": {"type": "int32"}}, "array<int>"),
        ({"type": "bytes"}, "binary"),
        ({"type": "int8"}, "tinyint"),
    ],
)
def test_a_field_of_a_schema_block_has_a_column_type(
    tmp_path: Path, field: dict[str, object], expected: str
) -> None:
    columns = {"field": "after", "type": "struct", "fields": [{"field": "a", **field}]}
    value = {"schema": {"fields": [columns]}, "payload": change(a=None)}
    assert sample_of(tmp_path, value).columns == {"a": expected}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, None, 2], "bigint"),
        ([1, 2.5], "double"),
        ([1, "x"], "string"),
        ([True], "boolean"),
        ([["a"], [], None], "array<string>"),
        ([[1], ["a"]], "string"),
        ([[1.5], [2]], "array<double>"),
        ([1.0], "double"),
        ([[1], "a"], "string"),
        ([{"a": 1}], "string"),
        ([None], None),
    ],
)
def test_json_values_have_a_column_type(
    tmp_path: Path, values: list[object], expected: str | None
) -> None:
    found = sample_of(tmp_path, *(change(id=1, a=value) for value in values))
    assert {**found.columns, **found.guessed}.get("a") == expected


@pytest.mark.parametrize(
    ("rows", "condition", "is_seen"),
    [
        ([{"Op": "I", "id": 1}, {"Op": "D", "id": 1}], operations("Op"), True),
        ([{"op": "c", "id": 1}, {"op": "u", "id": 1}], operations("op"), False),
        ([{"__op": "INSERT", "id": 1}], operations("__op"), False),
        ([{"is_deleted": True, "id": 1}], "is_deleted", True),
        ([{"isDeleted": False, "id": 1}], "isDeleted", False),
        ([{"deleted": 1, "id": 1}, {"deleted": 0, "id": 2}], "deleted = 1", True),
        ([{"deleted": "J", "id": 1}], "deleted = 'J'", True),
        ([{"gelöscht": "nein", "id": 1}], "`gelöscht` = 'ja'", False),
        ([{"LOEKZ": "X", "id": 1}, {"LOEKZ": "", "id": 2}], "LOEKZ = 'X'", True),
        ([{"is_deleted": "FALSE", "id": 1}], "is_deleted = 'TRUE'", False),
        ([{"deleted": "no", "id": 1}], "deleted = 'yes'", False),
        ([{"deleted": 1.0, "id": 1}, {"deleted": 0.0, "id": 2}], "deleted = 1", True),
        ([{"event": "D", "RowKind": "-D", "id": 1}], operations("RowKind", "-D"), True),
        ([{"op": "Inserted", "id": 1}], operations("op"), False),
        ([{"op": "insert", "id": 1}, {"op": "-U", "id": 1}], None, False),
        ([{"supprimé le": "2026-11-01", "id": 1}], "`supprimé le` IS NOT NULL", True),
        ([{"delete flag": "Y", "id": 1}], "`delete flag` = 'Y'", True),
        ([{"deleted_at": None, "id": 1}], "deleted_at IS NOT NULL", False),
        ([{"deletedAt": "2026-11-02", "id": 1}], "deletedAt IS NOT NULL", True),
        ([{"_sdc_deleted_at": None, "id": 1}], "_sdc_deleted_at IS NOT NULL", False),
        ([{"DateDeleted": None, "id": 1}], "DateDeleted IS NOT NULL", False),
        ([{"model_date": "2026-11-02", "deletion": 1, "id": 1}], None, False),
        ([{"op": "c", "is_deleted": True, "id": 1}], operations("op"), False),
        ([{"action": "click", "id": 1}], None, False),
    ],
)
def test_signs_of_deletes_become_a_condition(
    rows: list[dict[str, object]], condition: str | None, is_seen: bool
) -> None:
    sign, _ = find_delete_signs(rows)
    assert (sign and sign.condition, bool(sign and sign.deletes)) == (condition, is_seen)


@pytest.mark.parametrize(
    ("values", "note", "odd"),
    [
        (["2026-11-01", None], "1 of 2 rows is a delete", ""),
        ([None, None], "no row of the sample is a delete", ""),
        (["", "NULL", "2026-11-01"], "3 of 3 rows are deletes", "'', 'NULL'"),
        (["0000-00-00 00:00:00", None], "1 of 2 rows is a delete", "'0000-00-00 00:00:00'"),
        (["2099-12-31T00:00:00Z"], "1 of 1 row is a delete", "'2099-12-31T00:00:00Z'"),
        (["31.12.9999", "99991231"], "2 of 2 rows are deletes", "'31.12.9999', '99991231'"),
        ([0, 1_793_700_001], "2 of 2 rows are deletes", "'0'"),
        ([False], "1 of 1 row is a delete", "'false'"),
    ],
)
def test_a_time_of_deletes_with_values_that_may_mean_none_says_what_they_do(
    values: list[object], note: str, odd: str
) -> None:
    sign, asked = find_delete_signs([{"id": 1, "deleted_at": value} for value in values])
    assert (sign and sign.condition, asked) == ("deleted_at IS NOT NULL", {})
    assert sign is not None and sign.note == (f"{note}; also those with {odd}" if odd else note)


@pytest.mark.parametrize(
    ("row", "column", "values"),
    [
        ({"op": "7"}, "op", "'7'"),
        ({"action": "click"}, "action", "'click'"),
        ({"Status": "gelöscht"}, "Status", "'gelöscht'"),
        ({"status": "open"}, "status", "'open'"),
        ({"aktiv": False}, "aktiv", "'false'"),
        ({"note": " Supprimé "}, "note", "' Supprimé '"),
        ({"event": "USER.deleted"}, "event", "'USER.deleted'"),
        ({"orderStatus": 3}, "orderStatus", "'3'"),
        ({"deleted_by": "me"}, "deleted_by", "'me'"),
        ({"billing_state": "CA", "valid_from": "2026-11-01"}, None, ""),
        ({"phase": "Inactive"}, "phase", "'Inactive'"),
        ({"deleted": "maybe"}, "deleted", "'maybe'"),
        ({"op": "u", "is_deleted": True}, "is_deleted", "'true'"),
        ({"op": "u", "state": "Removed"}, "state", "'Removed'"),
        ({"op": "u", "state": "open"}, None, ""),
        ({"grade": "D", "name": "del"}, "name", "'del'"),
        ({"grade": "D", "x": None}, None, ""),
        ({"hvr_op": 2}, "hvr_op", "'2'"),
        ({"xdeleted": "F"}, "xdeleted", "'F'"),
        ({"is_deleted": False, "deleted_at": "2026-11-01"}, "deleted_at", "'2026-11-01'"),
    ],
)
def test_what_may_be_a_sign_of_deletes_and_is_not_taken_for_one_is_asked_about(
    row: dict[str, object], column: str | None, values: str
) -> None:
    _, asked = find_delete_signs([row])
    assert asked == ({} if column is None else {column: f"has {values}"})


def test_letters_that_are_all_operations_are_asked_about_whatever_their_column() -> None:
    _, asked = find_delete_signs([{"kind": "I"}, {"kind": "d"}, {"kind": None}])
    assert asked == {"kind": "has 'I', 'd'"}
    assert find_delete_signs([{"grade": "C"}, {"grade": "D"}, {"grade": "B"}]) == (None, {})


@pytest.mark.parametrize(
    ("value", "kind"),
    [("2026-11-01T10:00:00Z", "timestamp"), (None, "timestamp"), ("2026-11-01", "date"),
     ("", "string"), (7, "bigint")],
)  # fmt: skip
def test_a_time_of_deletes_is_declared_as_one(tmp_path: Path, value: object, kind: str) -> None:
    found = sample_of(tmp_path, {"id": 1, "deleted_at": value, "version": 1})
    assert (found.format, found.columns["deleted_at"]) == ("rows", kind)


def test_airbytes_changes_are_known_before_a_row_is_deleted(tmp_path: Path) -> None:
    row = {
        "id": 1,
        "_ab_cdc_lsn": 7,
        "_ab_cdc_updated_at": "2026-11-01",
        "_ab_cdc_deleted_at": None,
    }
    assert sample_of(tmp_path, row).format == "airbyte"


def test_a_rows_columns_inside_a_cell_of_csv_are_not_declared(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    cell = '"{""id"": 1, ""_ab_cdc_updated_at"": ""x""}"'
    file.write_text(f"_airbyte_data,_airbyte_extracted_at\n{cell},1\n")
    found = read_sample([file], "t")
    assert (found.format, found.columns, [*found.guessed]) == ("airbyte", {}, ["id"])


def test_operations_that_the_sample_lacks_are_no_upserts_and_long_lists_are_cut() -> None:
    rows: list[dict[str, object]] = [{"op": "d"}, {"op": "c"}, {"op": None}, {"id": 1}]
    sign, _ = find_delete_signs(rows)
    assert sign is not None and sign.note == "1 of 4 rows is a delete"
    known = "upper(trim(op)) IN ('I', 'INSERT', 'U', 'UPDATE', 'C')"
    assert sign.upserts == f"{known} OR op IS NULL"
    sign, _ = find_delete_signs(rows[:2])
    assert sign is not None and sign.upserts == known
    _, asked = find_delete_signs([{"state": f"{number}" * 30} for number in range(9)])
    _, of_names = find_delete_signs([{"name": f"{n} removed"} for n in range(300)])
    assert of_names == {}  # no state has so many values
    assert asked["state"].startswith(f"has '{'0' * 20}', '") and asked["state"].endswith("', …")


def test_json_rows_with_op_are_rows_with_an_order_and_deletes(tmp_path: Path) -> None:
    rows = [{"id": 1, "op": "c", "seq": 10}, {"id": 1, "op": "d", "seq": 11}]
    found = sample_of(tmp_path, *rows)
    assert (found.format, found.keys, found.sequence_by) == ("rows", ["id"], "seq")
    assert found.deletes is not None and found.deletes.condition == operations("op")


@pytest.mark.parametrize("name", ["orders.jsonl", "2026-11-01T10.jsonl"])
def test_an_order_column_wins_over_a_dated_name_and_over_one_null(
    tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    rows = [{"id": 1, "updated_at": "2026-11-01T10:00:00Z"}, {"id": 2, "updated_at": None}]
    file.write_text("\n".join(map(json.dumps, rows)))
    found = read_sample([file], "t")
    assert (found.format, found.sequence_by) == ("rows", "updated_at")
    assert found.notes == {"sequence_by": "null in some rows, which become dead letters"}


def test_numbers_whose_dots_may_be_thousands_are_texts(tmp_path: Path) -> None:
    file = tmp_path / "stock.csv"
    file.write_text("id;price;stock;weight\n1;0,05;10.000;0.375\n2;1.234,50;3;1.250\n")
    found = read_sample([file], "t")
    assert [found.columns[name] for name in ("price", "stock", "weight")] == [
        *("string", "string", "decimal(18,3)")
    ]
    assert found.notes == {"columns.stock": "10.000 may be 10000"}


def test_numbers_with_a_decimal_comma_are_drafted_as_numbers(tmp_path: Path) -> None:
    file = tmp_path / "stock.csv"
    file.write_text("id;price;stock\n1;0,05;10.000\n2;1.234,50;3\n")
    found = read_sample([file], "t")
    assert (found.columns["price"], found.columns["stock"]) == ("decimal(18,2)", "bigint")
    assert found.csv == {"decimal_comma": "true", "thousands": '"."'}
    assert found.notes == {"csv": "0,05 is read as 0.05"}


@pytest.mark.parametrize(
    ("text", "keys", "kind", "note"),
    [
        ("id,v\n1,a\n,b\n", ["id"], "bigint", ONE_NULL),
        ("id,v\n1.0,a\n,b\n2.0,\n", ["id"], "bigint", ONE_NULL),
        ("v,id\na,1\nb,\nc,\n", ["id"], "bigint", "null in 2 rows, which become dead letters"),
        ("sku,v\nx,a\n,b\n", ["sku"], "string", ONE_NULL),
        ("a,b\n1,x\n1,y\n", ["a", "b"], "bigint", "a alone is not unique"),
        ("a,b,c\n1,x,p\n1,x,q\n", ["a"], "bigint", "different rows have the same a"),
        ("a,b\n1,x\n1,x\n", ["a"], "bigint", "by its values, not by its name"),
        (
            "id,tenant_id,updated_at\n1,1,2026-01-01\n1,2,2026-01-01\n2,2,2026-01-01\n",
            *(["id", "tenant_id"], "bigint", "id alone is not unique"),
        ),
        ("mail,b\nx,1\ny,1\n", ["mail"], "string", "by its values, not by its name"),
        ("id,b\n1,1\n2,1\n", ["id"], "bigint", None),
        (
            "id,tenant,seq\n1,a,1\n1,b,2\n2,a,3\n",
            *(["id"], "bigint", "2 of 3 rows have the id of another"),
        ),
        (
            "name,lief_id,parent_id\nx,1,\ny,,1\nz,2,1\n",
            *(["name"], "string", "by its values, not by its name; lief_id has a null"),
        ),
        (
            "id,v,updated_at\n1,a,2026-01-01\n1,b,2026-01-01\n1,b,2026-01-01\n",
            *(["id"], "bigint", "different rows have the same id and updated_at"),
        ),
    ],
)
def test_a_guessed_key_says_what_it_was_guessed_by(
    tmp_path: Path, text: str, keys: list[str], kind: str, note: str | None
) -> None:
    file = tmp_path / "t.csv"
    file.write_text(text)
    found = read_sample([file], "t")
    assert (found.keys, found.columns[keys[0]], found.notes.get("keys")) == (keys, kind, note)


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("updated_at", ["01.11.2026 10:00", "02.11.2026 09:00"], None),
        ("updated_at", ["01/11/2026", "02/10/2026"], None),
        ("version", ["1.9", "1.10"], None),
        ("version", [1.9, 1.1], None),
        ("ts", [1_793_700_001.25], None),
        ("version", ["9", "10"], "bigint"),
        ("lsn", ["0/16B3748", "0/16B3750"], "string"),
        ("updated_at", ["2026-11-01", "2026-11-02T10:00:00Z"], "timestamp"),
    ],
)
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_an_order_is_guessed_only_of_values_that_order(
    tmp_path: Path, name: str, values: list[object], kind: str | None, form: str
) -> None:
    file = tmp_path / f"t.{form}"
    rows = [{"id": number, name: value} for number, value in enumerate(values)]
    of_csv = [f"id,{name}", *(f"{number},{value}" for number, value in enumerate(values))]
    file.write_text("\n".join(of_csv if form == "csv" else map(json.dumps, rows)))
    found = read_sample([file], "t")
    assert (found.format, found.sequence_by) == ("rows", name if kind else None)
    assert found.columns[name] == (kind or "string")
    note = f"{name} has {', '.join(map(str, values))}, no whole numbers or ISO times"
    zone = "times without a zone count as UTC" if kind == "timestamp" else None
    assert found.notes.get("sequence_by") == (zone if kind else note)


@pytest.mark.parametrize(
    ("values", "sequence"),
    [
        (["31122025", "02012026"], None),
        ([31122025, 2012026], None),
        (["12312025", "12312025"], None),
        (["31122025235900", "01012026000000"], None),
        (["20251231", "20260102"], "updated"),
        (["20251231235900", "20260102000000"], "updated"),
        ([10122000, 10122001], "updated"),
        ([1793700001, 1793700002], "updated"),
    ],
)
def test_digits_with_the_day_before_the_year_are_no_order(
    tmp_path: Path, values: list[object], sequence: str | None
) -> None:
    file = tmp_path / "t.json"
    file.write_text("\n".join(json.dumps({"id": 1, "n": n, "updated": v}) for n, v in
                              enumerate(values)))  # fmt: skip
    found = read_sample([file], "t")
    assert (found.format, found.sequence_by) == ("rows", sequence)
    shown = ", ".join(map(str, dict.fromkeys(values)))
    note = f"updated has {shown}, days that are no order as they begin with no year"
    assert sequence or found.notes["sequence_by"] == note


@pytest.mark.parametrize(
    ("times", "note"),
    [
        (["2026-11-01", "2026-11-02"], "changes of one day are a tie"),
        (
            ["2026-11-01 10:00:00", "2026-11-01 10:00:00"],
            "the same in all rows, as where a file is a whole table",
        ),
        (["7", "8"], None),
        (["2026-11-01 10:00:00", "2026-11-01 11:00:00"], None),
    ],
)
def test_an_order_says_where_it_may_be_none(
    tmp_path: Path, times: list[str], note: str | None
) -> None:
    file = tmp_path / "t.csv"
    file.write_text("\n".join(["id,updated_at", *(f"{n},{time}" for n, time in enumerate(times))]))
    found = read_sample([file], "t")
    assert (found.sequence_by, found.notes.get("sequence_by")) == ("updated_at", note)


def test_letters_of_another_encoding_change_no_number(tmp_path: Path) -> None:
    text = "id;name;price\n1;Müller;1.500\n2;Ümit;2.250\n"
    kinds = []
    for encoding in ("utf-8", "windows-1252"):
        file = tmp_path / f"{encoding}.csv"
        file.write_bytes(text.encode(encoding))
        kinds.append(read_sample([file], "t").columns)
    assert kinds[0] == kinds[1]
