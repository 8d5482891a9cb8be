"""One Debezium record at a time: what each becomes."""

import base64
import json
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import types as T

from silver.decode.wrapped import value_inside
from tests.helpers.debezium_records import (
    block,
    decoded,
    decoded_with,
    discovered,
    event,
    from_kafka,
    plain,
    table,
    whole,
    wrapped,
)
from tests.helpers.rubbish import BAD, MENDED, ODD_BUT_GOOD, RULE

ZERO = "0" * 16
PLACEHOLDER = "__debezium_unavailable_value"
ROW = {"id": 1, "name": "a"}


def record(value: object, **parts: object) -> dict[str, Any]:
    return {"topic": "s.t", "partition": 0, "offset": 7, "key": None, "value": value} | parts


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


def test_operations_of_the_envelope() -> None:
    lines: list[object] = [event(op, after=ROW) for op in "cur"]
    lines += [event("d", before=ROW), event("t"), event("m"), {"ts_ms": 1}]
    lines += [{"status": "BEGIN", "id": "5:9", "event_count": None}, {"status": "END"}]
    lines += [{"ddl": "x"}, None, "", "null"]

    found = decoded(table(), plain(*lines))

    assert column(found, "_operation") == [*["upsert"] * 3, "delete", "truncate", *["none"] * 8]
    assert column(found, "_reason") == [None] * len(lines)
    assert column(found, "_sequence")[5:] == [None] * 8


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"schema": {"type": "struct"}, "payload": None},
        {"schema": {"type": "struct"}},
        {"schema": {"type": "struct"}, "payload": {"ts_ms": 5}},
        {"schema": None, "payload": {"ts_ms": 5}},
        {"schema": None, "payload": None},
        {"payload": {"ts_ms": 5}},
        {"schema": {"type": "struct"}, "payload": {"status": "END", "id": "1:2", "event_count": 0}},
    ],
)
def test_records_without_a_change(value: object) -> None:
    [found] = decoded(table(), whole(record(value, key={"id": 1})))

    assert (found["_operation"], found["_reason"]) == ("none", None)


def test_a_whole_record_without_a_value_is_a_tombstone() -> None:
    [found] = decoded(table(), whole({"topic": "s.t", "offset": 7, "key": {"id": 1}}))

    assert found["_operation"] == "none"


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


@pytest.mark.parametrize("key", [None, {"id": 1}])
@pytest.mark.parametrize("op", ["c", "d"])
def test_rows_within_the_names_of_their_avro_types_are_named(op: str, key: object) -> None:
    row = {"shop.public.t.Value": {"id": 1, "name": {"string": "a"}}}
    parts = {"before": row} if op == "d" else {"after": row}

    [found] = decoded(table(), whole(record(event(op, **parts), key=key)))

    assert found["_reason"] == "illegal_change"
    assert "kafka-avro-console-consumer" in found["_message"]
    assert found["id"] is None


@pytest.mark.parametrize(
    ("line", "reason", "said"),
    [
        ({"database": "d", "table": "t", "type": "insert", "data": {"id": 1}}, "op", "Maxwell"),
        ({"specversion": "1.0", "type": "t", "source": "/s", "data": {}}, "json", "CloudEvents"),
        ({"after": {"id": 1}, "key": [1], "updated": "1.0"}, "op", "envelope=enriched"),
        ('CreateTime:1\tPartition:0\t{"id":1}\t{"op":"c"}', "json", "--property print.*"),
        ('{"id":1}\t{"op":"c","after":{"id":1}}', "json", "kcat -J"),
        ('{"id":1}\tnull', "json", "rpk topic consume"),
        ("Struct{before=null,after=Struct{id=1}}", "json", "StringConverter"),
        ("{before=null, after={id=1}}", "json", "StringConverter"),
        (
            {"before": None, "after": {"id": 1}, "at": 1},
            "op",
            "members before, after, at, expected",
        ),
        ({}, "op", "members (none), expected"),
    ],
)
def test_what_another_program_wrote_is_named(line: object, reason: str, said: str) -> None:
    reasons = {"op": "unknown_operation", "json": "not_json"}
    [found] = decoded(table(), plain(line))

    assert found["_reason"] == reasons[reason]
    assert said in found["_message"]


CELL = {"value": "x", "set": True}


@pytest.mark.parametrize("op", ["i", "u", "d"])
@pytest.mark.parametrize("row", [{"id": CELL, "name": CELL}, {"id": None, "name": CELL}])
def test_values_that_say_whether_they_are_set_are_refused(op: str, row: dict[str, Any]) -> None:
    rows = {"before" if op == "d" else "after": row}
    line = event(op, source={"connector": "yugabytedb", "lsn": 1}, **rows)
    [found] = decoded(table(columns={"id": "string"}), plain(line))

    assert (found["_reason"], found["id"]) == ("illegal_change", None)
    assert "YugabyteDB" in found["_message"]


def test_an_object_in_a_column_is_no_cell() -> None:
    line = event("c", after={"id": CELL, "name": "x"})

    assert decoded(table(columns={"id": "string"}), plain(line))[0]["_reason"] is None


def test_a_value_can_be_a_json_text() -> None:
    lines = [event("c", after={"id": 1, "name": "a"}), event("d", before={"id": 1})]
    texts = [{"topic": "t", "offset": at, "value": json.dumps(o)} for at, o in enumerate(lines)]

    found = decoded(table(), whole(*texts))

    assert [(row["id"], row["_operation"]) for row in found] == [(1, "upsert"), (1, "delete")]


@pytest.mark.parametrize("value", ["no JSON", "[1]", '"{}"'])
def test_any_other_text_is_no_json(value: str) -> None:
    found = decoded(table(), whole({"topic": "t", "offset": 1, "value": value}))

    assert [row["_reason"] for row in found] == ["not_json"]


@pytest.mark.parametrize("key", [[1, "a"], '[1,"a"]'])
def test_a_key_can_be_an_array_of_its_values(key: object) -> None:
    of = table(("id", "name"))
    line = {"topic": "t", "offset": 1, "key": key, "value": event("d")}
    [record] = whole(line)
    record.key = key.encode() if isinstance(key, str) else record.key

    [found] = decoded(of, [record])

    assert (found["id"], found["name"], found["_operation"]) == (1, "a", "delete")


def test_an_array_of_another_length_is_no_key() -> None:
    [found] = decoded(
        table(), whole({"topic": "t", "offset": 1, "key": [1, 2], "value": event("d")})
    )

    assert found["_reason"] == "no_key"


@pytest.mark.parametrize(
    ("line", "reason", "message"),
    [
        ("junk", "not_json", "found junk, expected one JSON object with a Debezium change"),
        (event("x"), "unknown_operation", "found op x, expected c, u, r, d, t or m"),
        (
            {},
            "unknown_operation",
            "found no op among the members (none), expected c, u, r, d, t or m in op",
        ),
        ({"op": {"a": 1}}, "unknown_operation", 'found op {"a":1}, expected c, u, r, d, t or m'),
        (event("u"), "illegal_change", "found op u without after, expected a row"),
        (
            event("d", before={"name": "b"}),
            "no_key",
            "found no value for id, expected one in after, the record's key or before",
        ),
        (
            event("c", after=ROW, source={"lsn": -1, "name": "s"}),
            "bad_sequence",
            'found source {"name":"s","lsn":-1}, expected a position',
        ),
        (
            event("t", source={"connector": "db2"}),
            "bad_sequence",
            'found source {"connector":"db2"}, expected a position',
        ),
    ],
)
def test_a_dead_letter_says_what_was_found_and_expected(
    line: object, reason: str, message: str
) -> None:
    [found] = decoded(table(), plain(line))

    assert (found["_reason"], found["_message"]) == (reason, message)


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


@pytest.mark.parametrize("kind", MENDED)
def test_what_a_wider_column_mends_is_a_bad_value_now(kind: str) -> None:
    reason, values = MENDED[kind]
    given = {"id": 1, "name": "x", "qty": 1, "price": "1.50"} | values
    records = plain(event("u", after=given))
    narrow = {"id": "int", "name": "string", "qty": "int", "price": "decimal(10,2)"}
    wide = narrow | {"qty": "bigint", "price": "decimal(14,2)"}
    mode = {"decimal_handling_mode": "string"}

    [now] = decoded(table(columns=narrow, source=mode), records)
    [then] = decoded(table(columns=wide, source=mode), records)

    assert now["_reason"] == (None if reason == RULE else reason)
    assert then["_reason"] is None


@pytest.mark.parametrize("kind", ODD_BUT_GOOD)
def test_odd_records_are_changes_all_the_same(kind: str) -> None:
    sent = ODD_BUT_GOOD[kind](9, 4)
    assert sent.change is not None

    [found] = decoded(table(columns={"id": "int"}), plain(sent.line))

    assert (found["_operation"], found["_reason"], found["id"]) == ("upsert", None, 4)
    assert found["name"] == (sent.change[2] or {})["name"]


def test_a_record_with_anything_behind_it_is_no_record() -> None:
    good = json.dumps(event("c", after={"id": 1, "name": "}, {"}))
    schema = json.dumps({"schema": {"fields": [{}, {}]}, "payload": event("c", after={"id": 1})})
    tails = ("}", "\t}", " rest}", ', "x": 1}', f",{good}", f" x{good}", f'"{good}', f"]{good}")
    sound = [good, schema, good.replace("}, {", "} {"), good.replace("}, {", "{")]

    found = decoded(table(), plain(*sound, *[good + tail for tail in tails]))
    blocks = decoded(table(), plain(*[schema + tail for tail in tails]))

    assert column(found, "_reason") == [None] * 4 + ["not_json"] * len(tails)
    assert column(blocks, "_reason") == ["not_json"] * len(tails)


@pytest.mark.parametrize(
    "line",
    [
        b'{"op":"c","after":{"id":1,"name":"\xff"}}',
        b'{"op":"c","after":{"id":1},"more":"\xff"}',
        b'{"schema":{"name":"\xff"},"payload":{"op":"c","after":{"id":1}}}',
        b'{"op":"c","after":{"id":1,"\xff":1}}',
        b'{"op":"c","after":{"id":1,"name":"\xed\xa0\x80"}}',
        b'{"op":"c","after":{"id":1,"name":"a\x01b"}}',
        b'{"op":"c","after":{"id":1,"name":"\\ud800"}}',
        b'{"op":"c","after":{"id":1},"more":[1,]}',
        b'{"schema":5,"payload":{"op":"c","after":{"id":1}}}',
        b'{"schema":{},"payload":5}',
        b'{"op":"c","after":{"id":1},"source":5}',
        b'{"op":"c","after":{"id":1},"transaction":[]}',
        b'{"op":"c","after":{"id":1},"before":""}',
    ],
)
def test_bytes_that_are_no_envelope_in_utf8_are_no_json(line: bytes) -> None:
    [found] = decoded(table(), plain(line))

    assert (found["_reason"], found["_operation"]) == ("not_json", None)
    found["_message"].encode()


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


def test_an_event_without_a_source_is_ordered_by_arrival_and_may_name_its_key_pk() -> None:
    of = table(columns={"id": "string", "amt": "decimal(10,2)"})
    lines = [{"op": "c", "pk": "P", "after": {"id": "P", "amt": 1500}}, {"op": "d", "pk": "P"}]

    found = decoded(of, plain(*lines))

    first, second = column(found, "_sequence")
    assert first.split("/")[0] == ZERO
    assert first < second
    assert column(found, "id") == ["P", "P"]
    assert column(found, "amt") == [Decimal("1500.00"), None]


def test_numbers_without_a_source_are_plain() -> None:
    of = table(columns={"id": "string", "amt": "decimal(10,2)"})
    lines = [{"op": "c", "after": {"id": "P", "amt": text}} for text in ("1500", 1500, "AQ==")]

    found = decoded(of, plain(*lines))

    assert column(found, "amt") == [Decimal(1500), Decimal(1500), None]
    assert column(found, "_reason") == [None, None, "bad_value"]


def test_numbers_of_a_source_block_can_be_base64() -> None:
    of = table(columns={"id": "string", "amt": "decimal(10,2)"})
    packed = base64.b64encode(b"\x05\xdc").decode()

    found = decoded(of, plain(*[event("c", after={"id": "R", "amt": v}) for v in (packed, 1500)]))

    assert column(found, "amt") == [Decimal(15), Decimal(1500)]


def test_of_a_delete_only_the_key_is_read() -> None:
    [found] = decoded(table(), plain(event("d", before={"id": 1, "name": "invented"})))

    assert (found["id"], found["name"]) == (1, None)


@pytest.mark.parametrize(
    ("op", "parts", "key", "expected"),
    [
        ("d", {"before": {"id": 1}}, {"id": 2}, 2),
        ("d", {"before": {"id": 1}}, {"schema": {"type": "struct"}, "payload": {"id": 2}}, 2),
        ("d", {"before": {"id": 1}}, {"other": 2}, 1),
        ("d", {"before": {"id": 1}}, "text", 1),
        ("d", {"before": {"id": 1}}, [1], 1),
        ("d", {"before": None}, {"ID": 2}, 2),
        ("d", {"before": {"Id": 3}}, None, 3),
        ("d", {"before": {"id": None}, "pk": 4}, {"id": None}, 4),
        ("c", {"after": {"id": 1, "name": "a"}}, {"id": 2}, 1),
        ("c", {"after": {"name": "a"}}, {"id": 2}, 2),
        ("c", {"after": {"id": None, "name": "a"}}, {"id": 2}, 2),
        ("c", {"after": {"name": "a"}, "pk": 5}, None, 5),
        ("c", {"after": {"name": "a"}, "before": {"id": 1}}, None, None),
        ("c", {"after": {"name": "a"}}, {"schema": {}, "payload": None}, None),
    ],
)
def test_where_a_key_is_found(op: str, parts: dict[str, Any], key: Any, expected: Any) -> None:
    records = whole(record(event(op, **parts), key=key))

    [found] = decoded(table(), records)

    assert found["id"] == expected
    assert found["_reason"] == (None if expected else "no_key")


def test_a_key_text_that_is_no_json_is_no_key() -> None:
    [given] = whole(record(event("d")))
    given.key = b"\x00\x00\x05\x01 registry"

    [found] = decoded(table(), [given])

    assert found["_reason"] == "no_key"


def test_keys_of_several_columns_are_taken_each_from_where_it_is() -> None:
    of = table(keys=("a", "b"), columns={"a": "int", "b": "string"})
    records = whole(record(event("d", before={"a": 1, "b": "no"}), key={"b": "x"}))

    [found] = decoded(of, records)

    assert (found["a"], found["b"]) == (1, "x")


def test_a_misfit_key_is_a_bad_value_and_the_others_are_kept() -> None:
    of = table(keys=("a", "b"), columns={"a": "int", "b": "string"})

    [found] = decoded(of, plain(event("u", after={"a": "x", "b": "y"})))

    assert (found["_reason"], found["a"], found["b"]) == ("bad_value", None, "y")


def test_a_dead_letter_keeps_its_place_in_order() -> None:
    [found] = decoded(table(), plain(event("u", after={"id": "x"})))

    assert found["_sequence"] == f"{10:016X}/{0:016X}"
    assert found["_source_time"] == 5_000_000


@pytest.mark.parametrize(
    "headers",
    [
        [{"key": "other", "value": 1}, {"key": "__debezium.oldkey", "value": {"id": 9}}],
        [{"other": 1}, {"__debezium.oldkey": {"schema": {}, "payload": {"id": 9}}}],
        [["other", "x"], ["__debezium.oldkey", '{"id": 9}']],
        ["other", "x", "__debezium.oldkey", '{"id": 9}'],
    ],
)
def test_headers_may_be_a_list(headers: object) -> None:
    row = {"id": 1, "name": PLACEHOLDER}

    [found] = decoded(table(), whole(record(event("c", after=row), headers=headers)))

    assert (found["_absent"], found["_old_key"]) == (["name"], '{"id":9}')


def test_a_placeholder_is_absent_where_one_can_occur() -> None:
    row = {"id": 1, "name": PLACEHOLDER}
    moved = {"__debezium.oldkey": {"schema": {"type": "struct"}, "payload": {"id": 9}}}
    records = [
        record(event("u", after=row)),
        record(event("c", after=row)),
        record(event("c", after=row), headers=moved),
        record(event("r", after=row)),
        record(event("u", after=row, before={"id": 1, "name": "x"})),
        record(event("c", after=row), headers={"__debezium.oldkey": '{"id":9}'}),
        record(event("c", after=row), headers={"other": "x"}),
        record(event("u", after=row, before={"id": 1}, source={"connector": "mysql", "lsn": 1})),
    ]

    found = decoded(table(), whole(*records))

    absent = ["name"]
    assert column(found, "_absent") == [absent, None, absent, None, None, absent, None, absent]
    shown = [None if one else PLACEHOLDER for one in column(found, "_absent")]
    assert column(found, "name") == shown
    assert column(found, "_old_key") == [
        None,
        None,
        '{"id":9}',
        *[None] * 2,
        '{"id":9}',
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("transaction", "absent"),
    [
        (None, ["name"]),
        ({"id": "5:9", "total_order": 2}, ["name"]),
        ({"id": "5:9", "total_order": "2"}, ["name"]),
        ({"id": "5:9", "total_order": 1}, None),
    ],
)
def test_an_insert_without_headers_may_be_a_key_change_but_for_the_first_of_a_transaction(
    transaction: object, absent: object
) -> None:
    line = event("c", after={"id": 1, "name": PLACEHOLDER}, transaction=transaction)

    [found] = decoded(table(), plain(line))

    assert found["_absent"] == absent


@pytest.mark.parametrize(
    ("type", "token"),
    [
        ("binary", base64.b64encode(PLACEHOLDER.encode()).decode()),
        ("binary", base64.urlsafe_b64encode(PLACEHOLDER.encode()).decode()),
        ("binary", PLACEHOLDER.encode().hex()),
        ("array<string>", [PLACEHOLDER]),
        ("array<string>", [base64.b64encode(PLACEHOLDER.encode()).decode()]),
        ("array<int>", list(PLACEHOLDER.encode())),
        ("string", [PLACEHOLDER]),
        ("string", {PLACEHOLDER: PLACEHOLDER}),
        ("map<string,string>", {PLACEHOLDER: PLACEHOLDER}),
        ("struct<a:int>", {PLACEHOLDER: PLACEHOLDER}),
    ],
)
def test_a_placeholder_has_a_form_for_each_type(type: str, token: object) -> None:
    of = table(columns={"id": "bigint", "large": type})

    [found] = decoded(of, plain(event("u", after={"id": 1, "large": token})))

    assert (found["large"], found["_absent"], found["_reason"]) == (None, ["large"], None)


def test_another_placeholder_can_be_configured() -> None:
    of = table(source={"unavailable_value": "hex:6e6f"})
    lines = [event("u", after={"id": 1, "name": name}) for name in ("no", PLACEHOLDER)]

    found = decoded(of, plain(*lines))

    assert column(found, "_absent") == [["name"], None]


@pytest.mark.parametrize("type", ["bigint", "timestamp", "boolean"])
def test_a_small_type_has_no_placeholder(type: str) -> None:
    of = table(columns={"id": "bigint", "small": type})

    [found] = decoded(of, plain(event("u", after={"id": 1, "small": PLACEHOLDER})))

    assert found["_reason"] == "bad_value"


def test_a_column_that_is_left_out_is_not_named_absent() -> None:
    of = table(except_column_list=["name"])

    [found] = decoded(of, plain(event("u", after={"id": 1, "name": PLACEHOLDER})))

    assert found["_absent"] is None


def test_new_columns_come_last_by_name_with_the_types_of_their_values() -> None:
    after = {"id": 1, "b": 2, "a": ["x"], "c": None, "d": {"k": 1.50}, "e": 1.5, "f": True}

    [found] = decoded(table(), plain(event("c", after=after)))

    assert list(found)[:8] == ["id", "name", "a", "b", "d", "e", "f", "_operation"]
    assert column([found], "a") == [["x"]]
    assert [found[c] for c in "bdef"] == [2, '{"k":1.5}', 1.5, True]


def test_numbers_inside_json_keep_every_digit() -> None:
    line = (
        '{"op":"c","after":{"id":1,"name":{"a":1.50,"b":12345678901234567890.123456789,"c":1E5}}}'
    )

    [found] = decoded(table(), plain(line))

    assert found["name"] == '{"a":1.50,"b":12345678901234567890.123456789,"c":1E5}'


def test_new_columns_can_be_ignored() -> None:
    of = table(schema_changes={"add_column": "ignore"})

    [found] = decoded(of, plain(event("c", after={"id": 1, "b": 2})))

    assert "b" not in found
    assert found["_reason"] is None


def test_a_value_of_another_kind_than_learned_is_incompatible() -> None:
    learned = {"id": T.LongType(), "name": T.LongType()}
    of = table(columns={})

    [found] = decoded(of, plain(event("c", after={"id": 1, "name": "text"})), learned)

    assert found["_reason"] == "incompatible_schema"
    assert found["_message"] == "column name: found 'text', expected bigint"


def test_a_learned_misfit_counts_before_a_declared_one() -> None:
    of = table(columns={"id": "bigint", "a": "int"})
    records = plain(event("c", after={"id": 1, "a": "x", "b": "y"}))

    [found] = decoded(of, records, {"b": T.LongType()})

    assert found["_reason"] == "incompatible_schema"
    assert found["_message"].count("found") == 2


def test_the_value_of_a_sensitive_column_is_not_shown() -> None:
    of = table(columns={"id": "bigint", "pin": {"type": "int", "sensitive": True}})

    [found] = decoded(of, plain(event("c", after={"id": 1, "pin": "secret"})))

    assert found["_message"] == "column pin: found a value that is not shown, expected int"


def test_a_null_in_a_column_that_must_not_be_null_is_a_bad_value() -> None:
    of = table(columns={"id": "int", "name": {"type": "string", "nullable": False}})
    rows = [{"id": 1}, {"id": 1, "name": None}, {"id": 1, "name": "a"}]
    lines = [event("u", after=row) for row in [*rows, {"id": 1, "name": PLACEHOLDER}]]
    lines.append(event("d", before={"id": 1}))

    found = decoded(of, plain(*lines))

    assert column(found, "_reason") == ["bad_value", "bad_value", None, None, None]
    told = "column name: found null, expected a value (nullable: false)"
    assert column(found, "_message")[:2] == [told, told]


def test_a_key_less_table_shows_the_old_row() -> None:
    of = table(keys=(), columns={"id": "bigint", "at": "timestamp"})
    old, new = {"id": 1, "at": "2024-01-01T00:00:00Z"}, {"id": 2, "at": None}
    lines = [event("d", before=old), event("u", before=old, after=new), event("u", after=new)]
    lines += [event("d"), event("c", after=new), event("t")]

    found = decoded(of, plain(*lines))

    assert column(found, "id") == [1, 2, None, None, 2, None]
    assert column(found, "_reason") == [None, None, "no_key", "no_key", None, None]
    assert json.loads(found[1]["_old_key"]) == {"id": 1, "at": "2024-01-01T00:00:00.000Z"}
    assert column(found[2:], "_old_key") == [None] * 4


def test_the_old_row_of_a_key_less_table_holds_every_type() -> None:
    types = {
        "a": "decimal(10,2)", "b": "date", "c": "timestamp_ntz", "d": "timestamp", "e": "binary",
        "f": "array<date>", "g": "boolean", "h": "double", "i": "string", "j": "int",
        "k": "struct<x:date>", "l": "map<string,decimal(3,1)>", "m": "double",
    }  # fmt: skip
    row = {
        "a": "+gA=", "b": 19782, "c": 1_700_000_000_000_001, "d": "2024-01-01T00:00:00.5Z",
        "e": "AQI=", "f": [0, None], "g": True, "h": 1.5, "i": '"', "j": None,
        "k": {"x": "2024-02-29"}, "l": {"y": 1.5}, "m": "NaN",
    }  # fmt: skip
    of = table(keys=(), columns=types)

    [found] = decoded(of, plain(event("d", before=row)))

    assert found["_reason"] is None
    assert found["_old_key"] == (
        '{"a":-15.36,"b":"2024-02-29","c":"2023-11-14T22:13:20.000001",'
        '"d":"2024-01-01T00:00:00.500Z","e":"AQI=","f":["1970-01-01",null],"g":true,"h":1.5,'
        '"i":"\\"","k":{"x":"2024-02-29"},"l":{"y":1.5},"m":"NaN"}'
    )


def test_the_old_key_of_a_key_change_is_read_by_the_record_s_own_schema() -> None:
    decimal = {
        "field": "id",
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "1", "connect.decimal.precision": "5"},
    }
    value = wrapped(event("c", after={"id": "Dw==", "name": PLACEHOLDER}), decimal, "name")
    headers = {"__debezium.oldkey": {"schema": {}, "payload": {"id": "GQ=="}}}

    [found] = decoded(table(columns={}), whole(record(value, headers=headers)))

    assert (str(found["id"]), found["_old_key"], found["_absent"]) == (
        "1.5",
        '{"id":2.5}',
        ["name"],
    )


def test_a_batch_without_any_change_is_decoded() -> None:
    found = decoded(table(columns={}), plain("junk", None))

    assert column(found, "_reason") == ["not_json", None]


def test_names_that_differ_in_case_only_are_one_column() -> None:
    [found] = decoded(table(), plain(event("c", after={"ID": 1, "Name": "a"})))

    assert (found["id"], found["name"]) == (1, "a")
    assert "Name" not in found


def test_a_kafka_record_is_a_value_with_key_and_headers_beside_it() -> None:
    headers = {"__debezium.oldkey": json.dumps({"id": 9})}
    row = {"id": 1, "name": PLACEHOLDER}
    records = [
        record(event("c", after=row), headers=headers),
        record(event("d", before=None), key={"id": 3}),
        record(None, key={"id": 3}),
    ]

    found = decoded(table(), from_kafka(*records))

    assert column(found, "id") == [1, 3, None]
    assert column(found, "_operation") == ["upsert", "delete", "none"]
    assert column(found, "_old_key") == ['{"id":9}', None, None]


@pytest.mark.parametrize("value", ["junk", {"schema": block("id"), "payload": event("m")}])
def test_a_decoder_is_the_same_after_a_record_that_it_cannot_read(value: object) -> None:
    good = event("c", after=ROW)

    found = decoded(table(), plain(good, value, good))

    assert found[0] == found[2]


def test_a_record_decodes_alike_whatever_came_before_it() -> None:
    lines: list[object] = [event("c", after=ROW), wrapped(event("c", after=ROW), "id", "name")]
    lines += [{"op": "c", "after": ROW}, event("d", before=ROW), event("c", after={"ID": 2})]
    records = plain(*lines)
    columns, _ = discovered(table(), records)

    together = decoded_with(table(), columns, records * 3)

    assert together == [decoded_with(table(), columns, [one])[0] for one in records] * 3
