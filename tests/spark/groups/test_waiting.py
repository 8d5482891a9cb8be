"""Which transactions wait, for captured records of which each topic arrived up to some point."""

import json
from random import Random
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from silver.groups.transaction_ends import read_ends
from silver.groups.waiting import Ends, find_waiting
from silver.state.table_state import WaitingTransaction
from tests.helpers.decoding import to_changes
from tests.helpers.records import captured, whole_rows

GROUP = ("orders", "order_items")
KEYS = {"orders": ["id"], "order_items": ["order_id", "line_no"]}
END_TOPIC, LENGTH = "shop.transaction", 1000
NEEDED = (
    "_operation", "_sequence", "_snapshot", "_snapshot_last", "_source_time", "_transaction",
    "_transaction_order", "_reason", "_offset",
)  # fmt: skip


class Shop(NamedTuple):
    """The whole change log of each member and all ENDs; `feed_batch` is the END's offset."""

    logs: dict[str, DataFrame]
    ends: DataFrame


def member(name: str) -> Table:
    source = {"format": "debezium", "path": "shop", "topic": f"shop.shop.{name}"}
    given = {"table": name, "source": source, "keys": KEYS[name], "consistency_group": "g"}
    return Table.model_validate(given)


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    place = tmp_path_factory.mktemp("shop")
    for name in GROUP:
        rows = to_changes(whole_rows(spark, captured("small", name)), member(name))
        kept = rows.select(*NEEDED, F.lit(name).alias("_feed"))
        kept.coalesce(1).write.parquet(f"{place}/{name}")
    markers = [r for r in captured("small") if r["topic"] == END_TOPIC]
    raw = whole_rows(spark, markers).withColumn("_batch", F.col("_offset"))
    read_ends(raw, "g", "feed", [member(name) for name in GROUP]).write.parquet(f"{place}/ends")
    logs = {name: spark.read.parquet(f"{place}/{name}") for name in GROUP}
    return Shop(logs, spark.read.parquet(f"{place}/ends"))


def found_waiting(
    spark: SparkSession, shop: Shop, cuts: dict[str, int], marked: bool = True
) -> tuple[WaitingTransaction, ...]:
    """What waits when each topic arrived up to an offset and nothing has been applied."""
    logs = {name: log.where(F.col("_offset") < cuts[name]) for name, log in shop.logs.items()}
    told = shop.ends.where(F.col("feed_batch") < cuts["END"])
    return find_waiting(logs, logs, Ends(told, marked), GROUP)


def transaction(record: dict[str, Any]) -> str | None:
    """A record's transaction, or the snapshot that it belongs to."""
    value = record["value"]
    if value is None:
        return None
    if value.get("op") == "r" and value["source"]["snapshot"] != "incremental":
        return f"snapshot shop:{value['source']['lsn']}"
    block = value.get("transaction")
    return block["id"].split(":")[0] if block else None


def commits() -> dict[str, int]:
    """The place in order of every transaction and snapshot of the capture."""
    places: dict[str, int] = {}
    for record in captured("small"):
        value = record["value"] or {}
        if value.get("status") == "END":
            name, _, lsn = value["id"].partition(":")
            places[name] = int(lsn)
        elif value.get("op") == "r" and value["source"]["snapshot"] != "incremental":
            places[f"snapshot shop:{value['source']['lsn']}"] = value["source"]["lsn"]
    return places


@pytest.mark.parametrize("seed", range(3))
def test_what_does_not_wait_is_whole_and_comes_before_what_waits(
    spark: SparkSession, shop: Shop, seed: int
) -> None:
    random, places = Random(seed), commits()
    middle = random.randint(20, LENGTH)
    cuts = {name: round(random.gauss(middle, 20)) for name in (*GROUP, "END")}
    waits = found_waiting(spark, shop, cuts)
    waiting_now = {each.transaction for each in waits}
    whole, here = parts(dict.fromkeys(GROUP, LENGTH)), parts(cuts)
    through = {t for t in here if t not in waiting_now}
    taken_again = min((t for t in places if t.startswith("snapshot")), key=places.__getitem__)
    assert [t for t in through - {taken_again} if here[t] != whole[t]] == []
    patient = [places[each.transaction] for each in waits if not each.overdue]
    assert [t for t in through if places[t] > min(patient, default=1 << 63)] == []


def test_nothing_waits_once_everything_has_arrived(spark: SparkSession, shop: Shop) -> None:
    assert found_waiting(spark, shop, dict.fromkeys((*GROUP, "END"), LENGTH)) == ()


def test_a_transaction_without_its_end_is_overdue_once_the_source_has_gone_on(
    spark: SparkSession, shop: Shop
) -> None:
    lost = shop._replace(ends=shop.ends.where("transaction <> '18240'"))
    everything = dict.fromkeys((*GROUP, "END"), LENGTH)
    (only,) = [w for w in found_waiting(spark, lost, everything) if w.missing == "its END"]
    assert (only.transaction, only.records) == ("18240", {"orders": 2})


def parts(cuts: dict[str, int]) -> dict[str, set[str]]:
    """The different records of each transaction that arrived of the members."""
    found: dict[str, set[str]] = {}
    for record in captured("small"):
        name, value = record["topic"].rpartition(".")[2], record["value"]
        of = transaction(record) if name in GROUP else None
        if of is not None and record["offset"] < cuts[name]:
            same = [name, record["key"], value["source"]["lsn"], value.get("transaction")]
            found.setdefault(of, set()).add(json.dumps(same))
    return found
