"""Nothing stops the stream and nothing is lost in it: 20,000 events with rubbish among them."""

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake
from silver.maintenance.replay import replay_table
from silver.run import SilverTable
from tests.helpers import lakes
from tests.helpers.rubbish import BAD, MENDED, outcome, stream
from tests.helpers.sums import sums

pytestmark = pytest.mark.slow

NOT_NULL = {"type": "expect_column_values_to_not_be_null", "column": "name"}


def table(qty: str, price: str, *rules: dict[str, Any]) -> Table:
    columns = {"id": "int", "name": "string", "qty": qty, "price": price}
    source = {"format": "debezium", "path": "t", "decimal_handling_mode": "string"}
    given = {"table": "t", "source": source, "keys": ["id"], "columns": columns}
    return Table.model_validate(given | {"expectations": list(rules)})


def as_read(line: str) -> str:
    """A line as Python reads it: what is not UTF-8 is replaced."""
    return line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def shown(lake: Lake) -> dict[int, tuple[Any, ...]]:
    rows = lake.spark.table(lake.name("silver", "t")).where("NOT _deleted").collect()
    return {r["id"]: (r["name"], r["qty"], str(r["price"])) for r in rows}


def test_every_good_event_is_applied_and_every_bad_one_says_why(lake: Lake) -> None:
    sent = stream(20_000, seed=5)
    today, mended = table("int", "decimal(10,2)", NOT_NULL), table("bigint", "decimal(14,2)")
    for name, part in (("1", sent[:12_000]), ("2", sent[12_000:])):
        lakes.land(lake.target, "t", f"{name}.jsonl", [one.line for one in part])
        lakes.run(lake, [today])
    assert len(BAD) + len(MENDED) >= 31
    letters = lake.spark.table(lake.name("silver", "t_dead_letters"))
    found = {row["raw"]: row["reason"] for row in letters.collect()}
    assert found == {as_read(one.line): one.reason for one in sent if one.reason}
    assert shown(lake) == outcome(sent, mended=False)
    notes, classes = sums(lake)
    reasons = Counter(f"dead_letter:{one.reason}" for one in sent if one.reason)
    assert notes["records"] == 20_000
    assert {n: c for n, c in classes.items() if n.startswith("dead_letter:")} == reasons
    for resolved in (10 * len(MENDED), 0):
        assert replay_table(SilverTable(lake, mended), F.lit(True), "replay").resolved == resolved
        assert shown(lake) == outcome(sent, mended=True)
    notes, classes = sums(lake)
    unmended = Counter(f"dead_letter:{o.reason}" for o in sent if o.reason and not o.mended)
    assert {n: c for n, c in classes.items() if n.startswith("dead_letter:")} == unmended
    assert (notes["records"], sum(classes.values())) == (20_000, 20_000)
