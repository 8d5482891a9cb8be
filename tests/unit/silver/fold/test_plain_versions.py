"""Histories of keys that are folded at once come out as the loop folds them."""

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from silver.fold.arrow_values import Window
from silver.fold.order_key import make_order
from silver.fold.plain.versions import find_plain_versions
from silver.fold.rules import FoldRules
from tests.helpers.fold_lake import CHANGE, HISTORY, FoldLake
from tests.helpers.oracle import Event
from tests.properties.budget import count_examples

KEYS = range(20)


def batch(random: Random, sent: list[tuple[Event, int]], newest: int) -> list[tuple[Event, int]]:
    """Changes of a batch, each with its arrival: most are new and newer than all before them."""
    arrived: list[tuple[Event, int]] = []
    for key in random.sample(KEYS, 15):
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            newest += 1
            late = random.random() < 0.03
            sequence = random.randrange(1, newest) if late else newest
            time = sequence - (random.random() < 0.05) * 3
            values = (("a", random.choice("xy")), ("b", random.choice("xyz")))
            if random.random() < 0.03:
                values = values[:1]
            upsert = random.random() < 0.8
            kind, given = ("upsert", values) if upsert else ("delete", ())
            event = Event(kind, sequence, key, given, time=time)
            arrived.append((event, len(sent) + len(arrived)))
    again = [event for event, _ in random.sample(arrived, 3)]
    again += [event for event, _ in random.sample(sent, 1)] if sent else []
    return arrived + [(event, len(sent) + len(arrived) + n) for n, event in enumerate(again)]


@pytest.mark.parametrize("tracked", [("a",), ("a", "b"), ()])
@pytest.mark.parametrize("seed", range(count_examples(4)))
def test_all_keys_at_once_come_out_as_one_by_one(seed: int, tracked: tuple[str, ...]) -> None:
    random, truncates = Random(seed), seed % 3 == 0
    # Where a record batch has one row, every key stays open: the loop folds it.
    at_once, by_loop = (FoldLake(True, tracked=tracked, most=most) for most in (2_000, 1))
    sent: list[tuple[Event, int]] = []
    for number in range(4):
        changes = batch(random, sent, len(sent) * 2)
        if truncates and number == 2:
            cut = Event("truncate", len(sent) * 2, time=len(sent) * 2)
            changes.append((cut, len(sent) + len(changes)))
        assert at_once.deliver(changes) == by_loop.deliver(changes)
        assert at_once.table == by_loop.table
        sent += changes


def test_plain_keys_are_found() -> None:
    def row(key: int, at: int, **own: Any) -> dict[str, Any]:
        whole = {"id": key, "_order": _order(at), "_operation": "upsert", "_source_time": at}
        return whole | {"_new": True, "_stored": False, "_digest": at} | own

    def stored(key: int, at: int, **own: Any) -> dict[str, Any]:
        facts = {"_time": at, "_valid_from": at, "_from_order": _order(at), "_life": b""}
        return row(key, at, _new=False, _stored=True, **facts, **own)

    delete = {"_operation": "delete"}
    plain = [
        [stored(1, 1), row(1, 2), row(1, 3)],
        [row(2, 5)],
        [row(3, 5, **delete), row(3, 6)],
        [row(4, 7), row(4, 7)],  # repeated
        [stored(5, 1, _next_order=_order(2)), stored(5, 2, **delete), row(5, 3, **delete)],
    ]
    others = [
        [row(7, 7), row(7, 7, _digest=0)],  # a tie
        [row(8, 2), stored(8, 8), row(8, 9)],  # late
        [stored(9, 8), row(9, 8)],  # the stored change, delivered again
        [row(10, 1, _absent=["a"])],
        [stored(11, 1, _next_order=_order(9)), row(11, 2)],  # a stored row is not read
        [row(12, 1, _new=False)],
        [stored(13, 9)],  # no change at all
        [row(14, 1, _source_time=9), row(14, 2)],  # time runs back
        [row(15, 1, _source_time=None)],
        [row(16, 1)],  # the window ends in this key
    ]
    types = CHANGE | HISTORY
    rows = [row for key in plain + others for row in key]
    columns = {name: pa.array([r.get(name) for r in rows], types[name]) for name in types}
    window = Window(None, pa.table(columns).to_batches()[0])
    begins, same = window.find_begins(["id"]), np.zeros(window.size, np.bool_)
    found, versions = find_plain_versions(window, begins, FoldRules(("a", "b")), same)
    assert found.tolist() == [True] * len(plain) + [False] * (len(others) - 1)
    assert versions is not None
    assert versions.sources.tolist() == [0, 1, 2, 3, 4, 5, 6, 9, 10]
    assert versions.outcomes == {
        "inserted": 3, "updated": 2, "deleted": 0, "delete_unknown": 2, "duplicate": 1,
    }  # fmt: skip
    for rules in (FoldRules(("a",), grouped=("a",)), FoldRules(("a",), keeps_deleted=True)):
        assert not find_plain_versions(window, begins, rules, same)[0].any()


def _order(at: int) -> bytes:
    return make_order(f"{at:016X}", "0A")
