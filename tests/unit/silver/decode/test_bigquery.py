from tests.helpers.builders import table
from tests.helpers.flat_records import Line, decoded


def test_more_columns_or_keys_than_bigquery_allows_are_illegal() -> None:
    wide = {"ID": 1, "_CHANGE_TYPE": "UPSERT"} | {f"c{n}": 1 for n in range(2000)}
    ignoring = table("bigquery", ["ID"], schema_changes={"add_column": "ignore"})
    assert decoded(ignoring, [wide]).told("reason", "message") == [
        ("illegal_change", "2001 columns, at most 2000")
    ]
    del wide["c0"]
    assert decoded(ignoring, [wide]).told("reason") == [None]
    keys = [f"k{n}" for n in range(17)]
    row: Line = dict.fromkeys(keys, 1) | {"_CHANGE_TYPE": "UPSERT"}
    found = decoded(table("bigquery", keys), [row])
    assert found.told("reason", "message") == [("illegal_change", "17 key columns, at most 16")]


def test_texts_that_are_hard_to_read_never_fail_the_batch() -> None:
    lines: list[Line] = [
        '{"ID": 1, "ID": 2, "_CHANGE_TYPE": "UPSERT"}',
        '{"ID": 3, "t": "a\\u0000b", "_CHANGE_TYPE": "UPSERT"}',
        '{"ID": 4, "t": "a\tb", "_CHANGE_TYPE": "UPSERT"}',
        '{"ID": 5, "t": ' + "[" * 1500 + "]" * 1500 + ', "_CHANGE_TYPE": "UPSERT"}',
        '\ufeff{"ID": 6, "_CHANGE_TYPE": "UPSERT"}',
        '{"ID": 7, "x": NaN, "_CHANGE_TYPE": "UPSERT"}',
        b'{"ID": 7, "t": "\xff", "_CHANGE_TYPE": "UPSERT"}',
        '{\'ID\': 7, "_CHANGE_TYPE": "UPSERT"}',
        "",
        None,
        '{"ID": 8, "price": {"a": 1, "a": 2}, "_CHANGE_TYPE": "UPSERT"}',
    ]
    columns = {"ID": "bigint", "t": "string", "price": "decimal(9,2)"}
    found = decoded(table("bigquery", ["ID"], columns=columns), lines)
    assert found.values("ID", "t")[:3] == [(2, None), (3, "a\x00b"), (4, "a\tb")]
    assert found.told("reason") == [None] * 3 + ["not_json"] * 6 + [None, "bad_value"]
    assert found.told("operation")[9] == "none"
