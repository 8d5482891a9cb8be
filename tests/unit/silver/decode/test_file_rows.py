"""Names in CSV headers, and columns that folders give."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from bronze.contract import NOT_TEXT
from lakehouse.config.table import Table
from silver.decode.columns import known_columns
from silver.decode.expressions.names import FAULT, MEMBER
from tests.helpers.builders import table
from tests.helpers.flat_records import decoded, discovery, record

COLUMNS = {"id": "int", "name": "string"}
CSV = {"file_format": "csv", "path": "in/t"}
DAYS = {"type": "int32", "name": "io.debezium.time.Date"}


def rows(source: dict[str, Any] = CSV, **options: Any) -> Table:
    return table("rows", ["id"], source, **({"sequence_by": "id", "columns": COLUMNS} | options))


def snapshot(source: dict[str, Any] = CSV, **options: Any) -> Table:
    given = {"mode": "full"} | source
    return table("snapshot", ["id"], given, **({"columns": COLUMNS} | options))


def test_a_csv_header_is_compared_without_regard_to_case() -> None:
    found = decoded(snapshot(), [{"ID": "1", "Name": "a"}, {"id": "2", "name": "b"}], file=DAY)

    assert found.columns.names == ["id", "name"]
    assert found.values("id", "name") == [(1, "a"), (2, "b")]


def test_new_names_that_differ_in_case_only_are_one_column_of_csv_files() -> None:
    lines = [{"id": "1", "Note": "a"}, {"id": "2", "NOTE": "5"}, {"id": "3", "note": "c"}]

    found = decoded(rows(), lines)

    assert found.columns.names[:3] == ["id", "name", "Note"]
    assert found.values("Note") == ["a", "5", "c"]
    assert found.told("reason") == [None] * 3


JSON = {"path": "in/t"}


def test_names_of_json_lines_are_compared_without_regard_to_case() -> None:
    found = decoded(rows(JSON), [{"ID": 1, "Name": "a"}, {"id": 2, "NAME": "b", "New": 1}])

    assert found.columns.names[:3] == ["id", "name", "New"]
    assert found.values("id", "name") == [(1, "a"), (2, "b")]
    assert found.told("reason", "absent") == [(None, ["New"]), (None, None)]


def test_of_a_row_with_two_names_that_differ_in_case_neither_is_dropped() -> None:
    found = decoded(rows(JSON), [{"id": 1, "name": "a", "NAME": "b"}, {"Id": 1, "ID": 2}])

    assert found.told("reason") == ["incompatible_schema", "no_key"]
    assert found.told("message")[0].startswith("found 'NAME', which can be no column: ")


def test_names_that_only_the_yaml_knows_have_its_spelling() -> None:
    of = rows(
        JSON,
        sequence_by="seq",
        except_column_list=["Op", "seq"],
        apply_as_deletes="Op = 'D'",
        columns_to_update="Carried",
    )
    found = decoded(of, [{"ID": 1, "OP": "D", "SEQ": 5, "NAME": "a", "carried": ["Name"]}])

    assert found.columns.names == ["id", "name", f"{MEMBER}seq", f"{MEMBER}Op", FAULT]
    assert found.values("name", f"{MEMBER}Op", f"{MEMBER}seq") == [("a", "D", 5)]
    assert found.told("reason", "absent") == [(None, None)]


def test_the_columns_of_bigquerys_protocol_may_be_in_any_case() -> None:
    of = table("bigquery", ["id"], JSON, columns=COLUMNS)
    found = decoded(of, [{"id": 1, "_change_type": "DELETE", "_change_sequence_number": "a"}])

    assert found.told("operation", "sequence") == [("delete", "000000000000000A")]


def test_a_schema_block_describes_columns_in_any_case() -> None:
    of = rows(JSON, columns=COLUMNS | {"day": "date"})
    fields = [{"field": "ID", "type": "int32"}, {"field": "DAY", **DAYS}]
    block = {"type": "struct", "fields": fields}
    found = decoded(of, [{"schema": block, "payload": {"ID": 1, "DAY": 20_000}}])

    assert found.values("id", "day") == [(1, 20_000)]


def test_an_empty_text_is_null_in_csv_columns_that_hold_no_text() -> None:
    types = {"id": "int", "name": "string", "n": "int", "day": "date", "l": "array<int>"}
    row = {"id": "1", "name": "", "n": "", "day": "", "l": ""}

    found = decoded(snapshot(columns=types), [row], file=DAY)

    assert found.values("id", "name", "n", "day", "l") == [(1, "", None, None, None)]
    assert found.told("reason") == [None]
    assert decoded(rows(JSON, columns=types), [row]).told("reason") == ["bad_value"]
    assert decoded(snapshot(columns=types), [row | {"id": ""}], file=DAY).told("reason") == [
        "bad_value"
    ]


DAY = "file:/landing/in/t/2025-01-01/a.csv"


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("file:/x=1/landing/in/t/region=eu/day=1/a.csv", ("eu", 1)),
        ("file:/landing/in/t/region=a%2Fb/a.csv", ("a/b", None)),
        ("file:/landing/in/t/region=__HIVE_DEFAULT_PARTITION__/day=2/a.csv", (None, 2)),
        ("file:/landing/in/t/a=b.csv", (None, None)),
    ],
)
def test_folders_give_columns(file: str, expected: tuple[object, object]) -> None:
    of = rows(columns=COLUMNS | {"region": "string", "day": "int"})

    assert decoded(of, [{"id": "1"}], file=file).values("region", "day") == [expected]


def test_a_rows_own_value_counts_more_than_its_folder() -> None:
    file = "/landing/in/t/2025-01-01/name=folder/a.csv"

    lines = [{"id": "1", "name": "own"}, {"id": "2"}, {"id": "3", "name": None}]
    found = decoded(snapshot(), lines, file=file)

    assert found.values("name") == ["own", "folder", "folder"]


def test_the_name_of_a_folder_of_csv_files_is_compared_without_regard_to_case() -> None:
    found = decoded(rows(), [{"id": "1"}], file="/landing/in/t/NAME=eu/a.csv")

    assert found.values("name") == ["eu"]


def test_columns_of_folders_need_no_declaration() -> None:
    found = decoded(rows(), [{"id": "1"}], file="/landing/in/t/region=eu/a.csv")

    assert found.values("region") == ["eu"]


@pytest.mark.parametrize("of", [rows(), snapshot()])
def test_a_csv_row_that_is_none_says_what_it_is(of: Table) -> None:
    found = decoded(of, ["1,2,3", b'{"id":"1","name":"Zo\xeb"}'], file=DAY)

    assert found.told("reason") == ["not_csv", "not_csv"]
    assert "header" in found.told("message")[0]
    assert "source.csv.encoding" in found.told("message")[1]


@pytest.mark.parametrize("make", [rows, snapshot])
def test_bytes_that_are_no_text_are_a_bad_value_of_their_row(make: Callable[..., Table]) -> None:
    lines = [{"id": 1, "NAME": "/w==", NOT_TEXT: ["NAME"]}, {"id": 2, "name": "/w=="}]
    parquet = {"file_format": "parquet", "path": "in/t"}

    found = decoded(make(parquet), lines, file=DAY)

    assert found.values("id", "name") == [(1, None), (2, "/w==")]
    assert found.told("reason") == ["bad_value", None]
    assert "column name: found bytes that are not UTF-8" in found.told("message")[0]
    assert found.columns.left_out == ()
    as_bytes = decoded(make(parquet, columns=COLUMNS | {"name": "binary"}), lines, file=DAY)
    assert as_bytes.values("name") == [b"\xff", b"\xff"]
    assert as_bytes.told("reason") == [None, None]


def test_a_key_whose_bytes_are_no_text_is_a_bad_value() -> None:
    of = rows({"file_format": "parquet", "path": "in/t"}, columns={"id": "string"})

    found = decoded(of, [{"id": "/w==", NOT_TEXT: ["id"]}])

    assert found.values("id") == [None]
    assert found.told("reason") == ["bad_value"]


def test_a_discovery_of_files_is_picklable() -> None:
    of = rows()
    seen = discovery(of, known_columns(of, {}))
    seen.look(record({"ID": "1", "x": "2"}, file="/landing/in/t/region=eu/a.csv"), "p")

    columns, _ = pickle.loads(pickle.dumps(seen)).settle()

    assert columns.names[:4] == ["id", "name", "region", "x"]
