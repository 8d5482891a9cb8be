"""Nothing stops the stream and nothing is lost in it: 20,000 events with rubbish among them."""

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage import names
from silver.maintenance.replay import replay_table
from silver.run import SilverTable
from tests.helpers import lake
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


def shown(spark: SparkSession, target: Target) -> dict[int, tuple[Any, ...]]:
    rows = spark.table(names.table_name(target, "silver", "t")).where("NOT _deleted").collect()
    return {r["id"]: (r["name"], r["qty"], str(r["price"])) for r in rows}


def test_every_good_event_is_applied_and_every_bad_one_says_why(
    spark: SparkSession, target: Target
) -> None:
    sent = stream(20_000, seed=5)
    today, mended = table("int", "decimal(10,2)", NOT_NULL), table("bigint", "decimal(14,2)")
    for name, part in (("1", sent[:12_000]), ("2", sent[12_000:])):
        lake.land(target, "t", f"{name}.jsonl", [one.line for one in part])
        lake.run(spark, target, [today])
    assert len(BAD) + len(MENDED) >= 31
    letters = spark.table(names.table_name(target, "silver", "t_dead_letters"))
    found = {row["raw"]: row["reason"] for row in letters.collect()}
    assert found == {as_read(one.line): one.reason for one in sent if one.reason}
    assert shown(spark, target) == outcome(sent, mended=False)
    notes, classes = sums(spark, target)
    reasons = Counter(f"dead_letter:{one.reason}" for one in sent if one.reason)
    assert notes["records"] == 20_000
    assert {n: c for n, c in classes.items() if n.startswith("dead_letter:")} == reasons
    for resolved in (10 * len(MENDED), 0):
        assert (
            replay_table(SilverTable.at(spark, target, mended), F.lit(True), "replay").resolved
            == resolved
        )
        assert shown(spark, target) == outcome(sent, mended=True)
    notes, classes = sums(spark, target)
    unmended = Counter(f"dead_letter:{o.reason}" for o in sent if o.reason and not o.mended)
    assert {n: c for n, c in classes.items() if n.startswith("dead_letter:")} == unmended
    assert (notes["records"], sum(classes.values())) == (20_000, 20_000)
