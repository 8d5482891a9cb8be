"""Names in CSV headers, and columns that folders give."""

import pickle
from typing import Any

import pytest

from lakehouse.table import Table
from silver.decode.columns import known_columns
from tests.builders import table
from tests.flat_records import decoded, discovery, record

COLUMNS = {"id": "int", "name": "string"}
CSV = {"file_format": "csv", "path": "in/t"}


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


def test_names_of_json_lines_keep_their_case() -> None:
    found = decoded(rows({"path": "in/t"}), [{"id": 1, "Name": "a"}])

    assert found.told("reason") == ["incompatible_schema"]


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


def test_a_discovery_of_files_is_picklable() -> None:
    of = rows()
    seen = discovery(of, known_columns(of, {}))
    seen.look(record({"ID": "1", "x": "2"}, file="/landing/in/t/region=eu/a.csv"), "p")

    columns, _ = pickle.loads(pickle.dumps(seen)).settle()

    assert columns.names[:4] == ["id", "name", "region", "x"]
