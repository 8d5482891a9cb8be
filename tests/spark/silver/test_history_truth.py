"""What triggers saw of every row, and the versions that the captured events give.

Rows that were there before the capture began come from a snapshot: of these the versions since
then are compared, of all others every version. `products` is left out: the scale of its price
changes in the middle, which records without a schema block do not tell.
"""

import gzip
import json
from decimal import Decimal
from itertools import groupby
from typing import Any

import pytest

from lakehouse.storage.lake import Lake
from tests.helpers import captures, flat, truth
from tests.helpers.records import captured, whole_rows

pytestmark = pytest.mark.slow

SEEN = truth.TRUTH / "small" / "history.jsonl.gz"
TOPICS = {"mixed_case": "Mixed_Case"}
NAMES = {"mixed_case": "Mixed Case"}

Versions = dict[Any, list[dict[str, Any]]]


@pytest.mark.parametrize(
    "name", ["customers", "order_items", "kitchen_sink", "orders", "mixed_case"]
)
def test_the_versions_are_what_triggers_saw(lake: Lake, name: str) -> None:
    [configured] = [table for table in captures.shop() if table.table == name]
    table = configured.model_copy(update={"stored_as_scd_type": 2})
    topic = TOPICS.get(name, name)
    schema, keys = truth.truth_schema("small", topic), truth.truth_key("small", topic)
    records = captured("small", topic)
    flat.deliver_rows(lake, table, whole_rows(lake.spark, records))
    shown = flat.shown(lake, table, f"{name}_history").orderBy("sequence_from")
    rows = [row.asDict() for row in shown.collect()]
    found = by_key([truth.comparable(row, schema) for row in rows], keys)
    live = {_key(truth.comparable(row, schema), keys) for row in rows if row["is_current"]}
    streamed, snapshot = _transactions(records), _snapshot_keys(records, keys)
    want, alive = seen(NAMES.get(name, name), schema, keys, streamed)
    assert want, name
    for key, versions in want.items():
        got = found[key]
        assert got[len(got) - len(versions) :] == versions, key
        assert len(got) == len(versions) or key in snapshot, key
        assert (key in live) == (key in alive), key


def seen(
    name: str, schema: truth.Schema, keys: list[str], streamed: set[int]
) -> tuple[Versions, set[Any]]:
    """The versions of each key by the triggers, of transactions that were streamed; live keys."""
    with gzip.open(SEEN, "rt", encoding="utf-8") as lines:
        entries = [json.loads(line, parse_float=Decimal, parse_int=Decimal) for line in lines]
    rows: list[dict[str, Any]] = []
    alive: set[Any] = set()
    for entry in (e for e in entries if e["table"] == name and int(e["txid"]) in streamed):
        for side in ("old", "new"):
            if entry[side] is not None:
                key = _key(truth.comparable(entry[side], schema), keys)
                alive = alive - {key} if side == "old" else alive | {key}
        if entry["new"] is not None:
            rows.append(truth.comparable(entry["new"], schema))
    return by_key(rows, keys), alive


def by_key(rows: list[dict[str, Any]], keys: list[str]) -> Versions:
    """The rows of each key in order; neighbours that are equal count once."""
    found: Versions = {}
    for row in rows:
        found.setdefault(_key(row, keys), []).append(row)
    return {key: [version for version, _ in groupby(rows)] for key, rows in found.items()}


def _transactions(records: list[dict[str, Any]]) -> set[int]:
    values = [record["value"] for record in records if record["value"]]
    return {int(v["source"]["txId"]) for v in values if v["op"] in ("c", "u", "d")}


def _snapshot_keys(records: list[dict[str, Any]], keys: list[str]) -> set[Any]:
    values = [record["value"] for record in records if record["value"]]
    return {_key(v["after"], keys) for v in values if v["op"] == "r"}


def _key(row: dict[str, Any], keys: list[str]) -> tuple[str, ...]:
    return tuple(str(row[key]) for key in keys)
