"""One Debezium record at a time: what each becomes."""

import json
from typing import Any

import pytest

from silver.decode.wrapped import value_inside
from tests.helpers.debezium_records import (
    decoded,
    decoded_with,
    discovered,
    event,
    plain,
    table,
    whole,
    wrapped,
)
from tests.helpers.rubbish import BAD, ODD_BUT_GOOD

ROW = {"id": 1, "name": "a"}


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


def test_what_cannot_be_read_is_told_and_the_rest_flows_on() -> None:
    good = event("c", after=ROW)
    deep = '{"op":"c","after":{"id":2,"name":' + "[" * 1500 + "]" * 1500 + "}}"
    lines: list[object] = [
        *("not json", '{"op":', "[1]", "5", '{"op":"c","after":5}', json.dumps(good) + " rest"),
        *("{'op':'c','after':{'id':1}}", '{"op":"c","after":{"id":NaN,"name":"a"}}'),
        *(deep, "\x00", event("x"), event("c"), event("c", after={"name": "b"})),
        event("c", after={"id": "abc", "name": "b"}),
        event("c", after={"id": 3}, source={"lsn": -1}),
        event("c", after={"id": 3}, source={"lsn": None}),
        "\ufeff" + json.dumps(good) + " \r\n",
        json.dumps(good | {"after": {"id": 4, "name": "x" * 5_000_000}}),
        '{"op":"c","op":"u","source":{"lsn":9},"after":{"id":5,"id":6,"name":"tw\\u0000ice"}}',
    ]

    found = decoded(table(), plain(*lines))

    assert column(found, "_reason") == [
        *["not_json"] * 10,
        *("unknown_operation", "illegal_change", "no_key", "bad_value", "bad_sequence"),
        *("bad_sequence", None, None, None),
    ]
    assert found[13]["_message"] == "column id: found 'abc', expected bigint"
    assert column(found[16:], "id") == [1, 4, 6]
    assert column(found[:16], "_operation") == [None] * 16


@pytest.mark.parametrize("value", ["no JSON", "[1]", '"text"'])
def test_any_other_text_is_no_json(value: str) -> None:
    found = decoded(table(), whole({"topic": "t", "offset": 1, "value": value}))

    assert [row["_reason"] for row in found] == ["not_json"]


@pytest.mark.parametrize("kind", BAD)
def test_every_kind_of_rubbish_says_why(kind: str) -> None:
    reason, made = BAD[kind]
    columns = {"id": "int", "name": "string", "qty": "int", "price": "decimal(10,2)"}
    of = table(columns=columns, source={"decimal_handling_mode": "string"})
    line = made(7, 3)
    records = plain(line, event("t"))
    if kind == "a negative offset":
        records = whole(json.loads(line))

    found = decoded(of, records)[0]

    assert (found["_operation"], found["_reason"]) == (None, reason)
    assert found["_message"]


@pytest.mark.parametrize("kind", ODD_BUT_GOOD)
def test_odd_records_are_changes_all_the_same(kind: str) -> None:
    sent = ODD_BUT_GOOD[kind](9, 4)
    assert sent.change is not None

    [found] = decoded(table(columns={"id": "int"}), plain(sent.line))

    assert (found["_operation"], found["_reason"], found["id"]) == ("upsert", None, 4)
    assert found["name"] == (sent.change[2] or {})["name"]


@pytest.mark.parametrize("levels", [400, 499, 500, 501, 600, 5_000, 200_000])
def test_nesting_ends_somewhere(levels: int) -> None:
    opened = f'{{"op":"c","after":{{"id":1,"name":{"[" * (levels - 2)}{"]" * (levels - 2)}}}}}'
    inside = f'{{"value":{opened}}}'

    [found] = decoded(table(), plain(opened))
    [other] = decoded(table(), plain(value_inside(inside.encode())))

    assert (found["_reason"] is None) == (levels <= 500)
    assert (other["_reason"] is None) == (levels <= 500)


def test_braces_in_texts_are_no_levels() -> None:
    name = '{["' * 2_000

    [found] = decoded(table(), plain(event("c", after={"id": 1, "name": name})))

    assert found["name"] == name


def test_a_record_decodes_alike_whatever_came_before_it() -> None:
    lines: list[object] = [event("c", after=ROW), wrapped(event("c", after=ROW), "id", "name")]
    lines += [{"op": "c", "after": ROW}, event("d", before=ROW), event("c", after={"ID": 2})]
    records = plain(*lines)
    columns, _ = discovered(table(), records)

    together = decoded_with(table(), columns, records * 3)

    assert together == [decoded_with(table(), columns, [one])[0] for one in records] * 3
