"""A stream of changes with rubbish mixed in, and what must become of each, in plain Python."""

import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

Row = dict[str, Any]

NO_UTF8 = "\udcff"
"""Stands for the byte FF, as Python's `surrogateescape` has it."""

RULE = "rule:expect_column_values_to_not_be_null(name)"


class Sent(NamedTuple):
    """A line, the change in it (None where there is none), and why it is rejected.

    `mended` says that it is good once the columns are wider and the rule is gone.
    """

    line: str
    change: tuple[int, str, Row | None] | None
    reason: str | None = None
    mended: bool = False


def event(at: int, op: str, row: Row | None, **source: Any) -> dict[str, Any]:
    given = {"connector": "postgresql", "lsn": at, "txId": at, "ts_ms": 1_700_000_000_000 + at}
    before, after = (row, None) if op == "d" else (None, row)
    return {"before": before, "after": after, "source": given | source, "op": op}


def text(at: int, op: str, row: Row | None, **source: Any) -> str:
    return json.dumps(event(at, op, row, **source))


def a_row(key: Any, **values: Any) -> Row:
    return {"id": key, "name": f"name {key}", "qty": 1, "price": "1.50"} | values


def _without(member: str) -> Callable[[int, int], str]:
    def line(lsn: int, key: int) -> str:
        given = event(lsn, "u", a_row(key))
        return json.dumps({name: value for name, value in given.items() if name != member})

    return line


def _with(lsn: int, key: int, **members: Any) -> str:
    return json.dumps(event(lsn, "u", a_row(key)) | members)


def _recorded(value: str, offset: int) -> str:
    """A whole record around a value."""
    return f'{{"topic": "t", "partition": 0, "offset": {offset}, "value": {value}}}'


Made = Callable[[int, int], str]

BAD: dict[str, tuple[str, Made]] = {
    "cut off": ("not_json", lambda n, k: text(n, "u", a_row(k))[:-20]),
    "an array": ("not_json", lambda n, k: f"[{text(n, 'u', a_row(k))}]"),
    "a text": ("not_json", lambda n, k: json.dumps("hello")),
    "a number": ("not_json", lambda n, k: "42"),
    "no JSON": ("not_json", lambda n, k: "id,name\t1,ann"),
    "two objects": ("not_json", lambda n, k: text(n, "u", a_row(k)) + text(n, "u", a_row(k))),
    "garbage behind": ("not_json", lambda n, k: text(n, "u", a_row(k)) + "x"),
    "an end behind": ("not_json", lambda n, k: text(n, "u", a_row(k)) + ', "op": "d"}'),
    "a NUL byte": ("not_json", lambda n, k: "\x00" + text(n, "u", a_row(k))),
    "too deep": ("not_json", lambda n, k: '{"after":' * 2000 + "1" + "}" * 2000),
    "an empty object": ("unknown_operation", lambda n, k: "{}"),
    "no operation": ("unknown_operation", _without("op")),
    "another operation": ("unknown_operation", lambda n, k: text(n, "x", a_row(k))),
    "an upper-case operation": ("unknown_operation", lambda n, k: text(n, "U", a_row(k))),
    "an update to nothing": ("illegal_change", lambda n, k: text(n, "u", None)),
    "a create of nothing": ("illegal_change", lambda n, k: text(n, "c", None)),
    "no key": ("no_key", lambda n, k: text(n, "u", {"name": "x", "qty": 1})),
    "a null key": ("no_key", lambda n, k: text(n, "u", a_row(None))),
    "a delete without a key": ("no_key", lambda n, k: text(n, "d", {"name": "x"})),
    "a text as key": ("bad_value", lambda n, k: text(n, "u", a_row("one"))),
    "a key too large": ("bad_value", lambda n, k: text(n, "u", a_row(1 << 40))),
    "a text as number": ("bad_value", lambda n, k: text(n, "u", a_row(k, qty="many"))),
    "a fraction": ("bad_value", lambda n, k: text(n, "u", a_row(k, qty=1.5))),
    "a boolean as number": ("bad_value", lambda n, k: text(n, "u", a_row(k, qty=True))),
    "an object as number": ("bad_value", lambda n, k: text(n, "u", a_row(k, qty={"a": 1}))),
    "an array as number": ("bad_value", lambda n, k: text(n, "u", a_row(k, qty=[1]))),
    "an empty source": ("bad_sequence", lambda n, k: _with(n, k, source={})),
    "no lsn": ("bad_sequence", lambda n, k: text(n, "u", a_row(k), lsn=None)),
    "a negative lsn": ("bad_sequence", lambda n, k: text(n, "u", a_row(k), lsn=-5)),
    "a text as lsn": ("bad_sequence", lambda n, k: text(n, "u", a_row(k), lsn="soon")),
    "a negative offset": ("bad_sequence", lambda n, k: _recorded(text(n, "u", a_row(k)), -n)),
    "a byte that is not UTF-8": (
        "not_json",
        lambda n, k: text(n, "u", a_row(k, name="@")).replace("@", NO_UTF8),
    ),
}
MENDED: dict[str, tuple[str, Row]] = {
    "a number too large": ("bad_value", {"qty": 1 << 40}),
    "too many digits": ("bad_value", {"price": "123456789012.25"}),
    "a rule breaker": (RULE, {"name": None}),
}
ODD_BUT_GOOD: dict[str, Callable[[int, int], Sent]] = {
    "5 MB": lambda n, k: _good(n, a_row(k, name="x" * 5_000_000)),
    "an escaped NUL": lambda n, k: _good(n, a_row(k, name="a\x00b")),
    "a replaced byte": lambda n, k: _good(n, a_row(k, name="caf\ufffd")),
    "a far future": lambda n, k: _good(n, a_row(k), ts_ms=253_402_300_000_000),
    "a name twice": lambda n, k: Sent(
        text(n, "u", a_row(k)).replace('"qty": 1', '"qty": 1, "qty": 1'), (n, "u", a_row(k))
    ),
}


def _good(lsn: int, row: Row, op: str = "u", **source: Any) -> Sent:
    return Sent(text(lsn, op, row, **source), (lsn, op, row))


def stream(size: int, seed: int) -> list[Sent]:
    """So many lines in order of commit, every kind of rubbish ten times among them."""
    chance = random.Random(seed)
    sent = []
    odd = [*BAD, *MENDED] * 10 + [*ODD_BUT_GOOD]
    places = dict(zip(chance.sample(range(size), len(odd)), odd, strict=True))
    for at in range(size):
        lsn, key = at + 1, chance.randrange(size // 10)
        sent.append(_sent(places.get(at), lsn, key, chance))
    return sent


def _sent(kind: str | None, lsn: int, key: int, chance: random.Random) -> Sent:
    if kind in BAD:
        reason, made = BAD[kind]
        return Sent(made(lsn, key), None, reason)
    if kind in MENDED:
        reason, values = MENDED[kind]
        row = a_row(key, **values)
        return Sent(text(lsn, "u", row), (lsn, "u", row), reason, mended=True)
    if kind is not None:
        return ODD_BUT_GOOD[kind](lsn, key)
    deletes = chance.random() < 0.1
    return _good(lsn, a_row(key, qty=chance.randrange(1000)), "d" if deletes else "u")


def outcome(sent: list[Sent], mended: bool) -> dict[int, tuple[Any, ...]]:
    """What a single-threaded reader has after the good changes, in order of commit."""
    rows: dict[int, tuple[Any, ...]] = {}
    for one in sent:
        if one.change is None or (one.reason and not (mended and one.mended)):
            continue
        _, op, row = one.change
        assert row is not None
        if op == "d":
            rows.pop(row["id"], None)
        else:
            rows[row["id"]] = (row["name"], row["qty"], row["price"])
    return rows
