"""Keys that are folded at once come out as the loop folds them; most keys are folded at once."""

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from silver.fold.arrow import FoldPlan, fold_batches
from silver.fold.arrow_values import Window
from silver.fold.order_key import make_order
from silver.fold.plain.keys import find_plain_keys
from silver.fold.rules import Cutoff, FoldRules
from tests.helpers.fold_lake import CHANGE, CURRENT, facts_text, split_counts
from tests.properties.budget import count_examples

TYPES = CHANGE | CURRENT
SEQUENCES = ("{0:016X}", "0000000000000001/{0:016X}", "{0:016X}/0000000000000002")


def rows_of(key: int, random: Random) -> list[dict[str, Any]]:
    """A stored row, maybe, and some changes of a key: most often plain, sometimes not."""
    text = random.choice(SEQUENCES) if random.random() < 0.2 else SEQUENCES[0]
    at = random.randrange(5)
    rows: list[dict[str, Any]] = []
    if random.random() < 0.5:
        stored = random.randrange(8) if random.random() < 0.2 else 0
        facts = {"upsert": None, "removed": _order(text, 0), "columns": None, "changes": None}
        rows.append(
            {"_order": _order(text, stored), "_stored": True, "_new": False, "a": "stored"}
            | {"_deleted": random.random() < 0.1, "_digest": random.randrange(3)}
            | {"_facts": facts_text(facts) if random.random() < 0.1 else None}
        )
    for _ in range(random.randrange(1, 5)):
        at += random.random() > 0.1
        delete = random.random() < 0.3
        rows.append(
            {"_order": _order(text, at), "_new": random.random() > 0.05, "_stored": False}
            | {"_operation": "delete" if delete else "upsert", "_digest": random.randrange(3)}
            | {"a": None if delete else f"{key}:{at}", "b": f"b{at}"}
            | {"_absent": ["b"] if random.random() < 0.05 and not delete else None}
        )
    first = [row for row in rows if row["_stored"]]
    return first + sorted(rows[len(first) :], key=lambda row: row["_order"])


def _order(text: str, at: int) -> bytes:
    return make_order(text.format(at), "0A")


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table({name: pa.array([r.get(name) for r in rows], TYPES[name]) for name in TYPES})


@pytest.mark.parametrize("cutoff", [None, 3])
@pytest.mark.parametrize("seed", range(count_examples(15)))
def test_all_keys_at_once_come_out_as_one_by_one(seed: int, cutoff: int | None) -> None:
    random = Random(seed)
    cutoffs = () if cutoff is None else (Cutoff(make_order(f"{cutoff:016X}")),)
    plan = FoldPlan(FoldRules(("a", "b"), cutoffs=cutoffs), ("id",))
    keys = [[{"id": key} | row for row in rows_of(key, random)] for key in range(40)]
    together = table([row for rows in keys for row in rows])
    # A key that is alone stays open until the end, so it goes through the loop.
    alone = [_folded(plan, table(rows), 100) for rows in keys]
    right = [row for rows, _ in alone for row in rows], sum((n for _, n in alone), Counter())
    for size in (7, 1000):
        assert _folded(plan, together, size) == right


def _folded(plan: FoldPlan, rows: pa.Table, size: int) -> tuple[list[dict[str, Any]], Counter[str]]:
    batches = rows.to_batches(max_chunksize=size)
    found = [row for part in fold_batches(plan, iter(batches)) for row in part.to_pylist()]
    return split_counts(found)


def test_plain_keys_are_found() -> None:
    def row(key: int, at: int, **own: Any) -> dict[str, Any]:
        whole = {"id": key, "_order": _order(SEQUENCES[0], at), "_operation": "upsert"}
        return whole | {"_new": True, "_stored": False, "_digest": at} | own

    delete = {"_operation": "delete"}
    stored = {"_stored": True, "_new": False, "_operation": None, "_deleted": False}
    plain = [
        [row(1, 1, **stored), row(1, 2), row(1, 3)],
        [row(2, 5)],
        [row(3, 5, **delete)],
        [row(4, 7), row(4, 7)],  # repeated
        [row(5, 1, **stored), row(5, 2, **delete), row(5, 3, **delete)],
        [row(6, 2, **delete), row(6, 3), row(6, 4, **delete), row(6, 5)],
    ]
    others = [
        [row(7, 7), row(7, 7, _digest=0)],  # a tie
        [row(8, 8, **stored), row(8, 2)],  # late
        [row(9, 8, **stored), row(9, 8)],  # the stored change, delivered again
        [row(10, 1, _absent=["a"])],
        [row(11, 1, **(stored | {"_deleted": True})), row(11, 2)],
        [row(12, 1, _new=False)],
        [row(13, 9, **stored)],  # no change at all
        [row(14, 1)],  # the window ends in this key
    ]
    window = Window(None, table([row for key in plain + others for row in key]).to_batches()[0])
    begins = window.find_begins(["id"])
    found, keys = find_plain_keys(window, begins, FoldRules(("a", "b")))
    assert found.tolist() == [True] * len(plain) + [False] * (len(others) - 1)
    assert keys.newest.tolist() == [2, 3, 4, 5, 9, 13]
    assert keys.upsert.tolist() == [2, 3, -1, 5, 7, 13]
    assert keys.removed.tolist() == [-1, -1, -1, -1, -1, 12]
    assert keys.deleted.tolist() == [False, False, True, False, True, False]
    assert keys.keeps_values.tolist() == [False, False, False, False, True, False]
    assert keys.outcomes == {
        "inserted": 3, "updated": 1, "deleted": 1, "delete_unknown": 1, "superseded": 5,
        "duplicate": 1,
    }  # fmt: skip
    for rules in (FoldRules(("a", "b"), grouped=("a",)), FoldRules(("a", "b"), from_log=True)):
        assert not find_plain_keys(window, begins, rules)[0].any()
