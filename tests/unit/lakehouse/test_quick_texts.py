"""Which rows a deletion vector hides, what DuckDB is asked in place of Spark, and how it prints."""

import base64
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from pyroaring import BitMap64

from lakehouse.config.target import Target
from lakehouse.quick import hidden_rows
from lakehouse.quick.hidden_rows import read_hidden_rows
from lakehouse.quick.lake import NotQuick, QuickAnswer, QuickLake
from lakehouse.quick.texts import csv_lines, json_lines, render_texts

HIDDEN = [0, 3, 5_000_000_000]
DATA = (1681511377).to_bytes(4, "little") + BitMap64(HIDDEN).serialize()


def z85(data: bytes) -> str:
    table = str.maketrans(hidden_rows._OF_PYTHON, hidden_rows._OF_DELTA)
    return base64.b85encode(data).decode().translate(table)


def test_a_vector_lies_in_the_log_or_in_a_file_of_its_own(tmp_path: Path) -> None:
    padded = DATA + bytes(-len(DATA) % 4)
    inline = {"storageType": "i", "pathOrInlineDv": z85(padded), "sizeInBytes": len(DATA)}
    assert read_hidden_rows(tmp_path, inline) == HIDDEN
    id = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
    file = tmp_path / "ab" / f"deletion_vector_{id}.bin"
    file.parent.mkdir()
    file.write_bytes(b"\x01" + len(DATA).to_bytes(4, "big") + DATA + b"\0\0\0\0")
    apart = {"storageType": "u", "offset": 1, "sizeInBytes": len(DATA)}
    assert read_hidden_rows(tmp_path, apart | {"pathOrInlineDv": f"ab{z85(id.bytes)}"}) == HIDDEN
    with pytest.raises(ValueError, match="kind p"):
        read_hidden_rows(tmp_path, inline | {"storageType": "p"})
    with pytest.raises(ValueError, match="another version"):
        read_hidden_rows(tmp_path, inline | {"pathOrInlineDv": z85(bytes(8)), "sizeInBytes": 8})


def test_deltas_own_example_of_an_id_is_read() -> None:
    id = base64.b85decode(hidden_rows._as_python("^-aqEH.-t@S}K{vb[*k^"))
    assert UUID(bytes=id) == UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")


def test_values_print_as_spark_writes_them() -> None:
    zone = "TIMESTAMP WITH TIME ZONE"
    found = QuickAnswer(
        ["a", "b", "c", "d", "e", "f", "g"],
        ["BIGINT", "VARCHAR", "DECIMAL(9,8)", zone, "BOOLEAN", "BLOB", "DATE"],
        [
            (
                1,
                'x"\x1f',
                Decimal("0E-8"),
                datetime.fromisoformat("2026-01-02T03"),
                True,
                b"\0\xff",
                None,
            ),
            (None, "", None, None, False, None, date(2026, 1, 2)),
        ],
    )
    assert render_texts(found)[0] == [
        "1", 'x"\x1f', "0.00000000", "2026-01-02T03:00:00.000000Z", "true", "AP8=", None
    ]  # fmt: skip
    assert json_lines(found) == [
        '{"a":1,"b":"x\\"\\u001F","c":0E-8,"d":"2026-01-02T03:00:00.000000Z","e":true,'
        '"f":"AP8=","g":null}',
        '{"a":null,"b":"","c":null,"d":null,"e":false,"f":null,"g":"2026-01-02"}',
    ]
    assert csv_lines(found)[2] == ",,,,false,,2026-01-02"
    for kind in ("DOUBLE", "INTEGER[]", "STRUCT(a INTEGER)"):
        with pytest.raises(NotQuick):
            render_texts(QuickAnswer(["a"], [kind], []))


def test_sparks_words_are_said_as_duckdb_says_them(tmp_path: Path) -> None:
    lake = QuickLake(Target(root=str(tmp_path)))
    rows = "FROM (VALUES (1L, 3L), (CAST(NULL AS bigint), 5L)) AS t(`a b`, at)"
    assert lake.ask(f"SELECT max_by(`a b`, at) AS newest {rows}") == [{"newest": None}]
    assert lake.ask(f"SELECT percentile(at, 0.5) AS middle {rows}") == [{"middle": 4.0}]
    told = lake.ask(
        "SELECT of.id AS id FROM (SELECT from_json(_key, '`id` bigint, `n` decimal(5,2)') AS of"
        """ FROM (VALUES ('{"id": 7, "n": 1.5}')) AS t(_key))"""
    )
    assert told == [{"id": 7}]
    with pytest.raises(NotQuick):
        lake.ask("SELECT try_parse_json('x')")
