from pathlib import Path

import pytest

from bronze.feed_state import FeedState, Note
from bronze.feeds import list_feeds
from bronze.kafka.ingest import (
    CONNECTOR,
    TOKENS,
    ReadingPlan,
    cut_ranges,
    list_jars,
    list_packages,
    plan_feed,
)
from bronze.kafka.topics import (
    Answers,
    Bounds,
    JustAsked,
    KafkaFailed,
    ask_brokers,
    connection_of,
)
from lakehouse.config.source import Kafka
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.gaps import Gap
from lakehouse.storage.lake import Lake

KAFKA = Kafka(topic="a, b", bootstrap_servers="k:9092")


def table(source: dict[str, object]) -> Table:
    given = {"format": "debezium", **source}
    return Table.model_validate({"table": "t", "keys": ["id"], "source": given})


def planned(begun: dict[str, int], starting: str = "earliest", **bounds: Bounds) -> ReadingPlan:
    """What is to be read of topic `a`, of which some partitions have been read before."""
    kafka = Kafka(topic="a", bootstrap_servers="k:9092", starting_offsets=starting)
    state = FeedState(
        Path("nowhere"), taken=Note(0, offsets={"a": begun}), notes=[1] if begun else []
    )
    return plan_feed(
        list_feeds([table({"kafka": kafka})])[0],
        kafka,
        state,
        {"a": {name.removeprefix("p"): found for name, found in bounds.items()}},
    )


def test_spark_needs_its_connector_for_kafka_only() -> None:
    assert list_packages([table({"path": "p"})]) == []
    assert list_packages([table({"path": "p"}), table({"kafka": KAFKA})]) == [CONNECTOR]
    assert list_jars([table({"path": "p"})]) == []
    assert list_jars([table({"kafka": KAFKA})]) == [TOKENS]


@pytest.mark.parametrize(
    ("starting", "begins"),
    [("earliest", 3), ("latest", 9), ('{"a":{"0":5}}', 5), ('{"a":{"0":-1}}', 9), ("{}", 3)],
)
def test_the_first_run_begins_where_it_was_told(starting: str, begins: int) -> None:
    plan = planned({}, starting, p0=Bounds(3, 9))
    assert (plan.ranges, plan.gaps) == ({("a", "0"): (begins, 9)}, [])


def test_a_later_run_goes_on_and_reads_a_new_partition_from_its_first_record() -> None:
    plan = planned({"0": 7}, "latest", p0=Bounds(3, 9), p1=Bounds(0, 2))
    assert (plan.ranges, plan.gaps) == ({("a", "0"): (7, 9), ("a", "1"): (0, 2)}, [])


def test_what_is_gone_before_it_was_read_is_a_gap() -> None:
    plan = planned({"0": 3}, p0=Bounds(7, 9))
    assert plan.ranges == {("a", "0"): (7, 9)}
    assert plan.gaps == [Gap(table="t", feed="t", topic="a", partition=0, first=3, last=6)]


def test_a_topic_that_was_made_anew_is_read_from_its_beginning() -> None:
    plan = planned({"0": 8}, p0=Bounds(0, 2))
    assert (plan.ranges, plan.gaps) == ({("a", "0"): (0, 2)}, [])


def test_a_limit_cuts_what_is_new_by_the_share_of_each_partition() -> None:
    ranges = {("a", "0"): (0, 6), ("a", "1"): (4, 7), ("b", "0"): (1, 1)}
    assert list(cut_ranges(ranges, None)) == [{("a", "0"): (0, 6), ("a", "1"): (4, 7)}]
    cut = list(cut_ranges(ranges, 3))
    assert cut[0] == {("a", "0"): (0, 2), ("a", "1"): (4, 5)}
    for partition in ("0", "1"):
        spans = [part["a", partition] for part in cut if ("a", partition) in part]
        assert [span[0] for span in spans[1:]] == [span[1] for span in spans[:-1]]
        assert spans[-1][1] == ranges["a", partition][1]


def test_a_missing_topic_fails_its_own_feed_alone() -> None:
    other = Kafka(topic="b", bootstrap_servers="k:9092")
    answers = Answers({connection_of(KAFKA): {"b": {"0": Bounds(0, 1)}}}, {})
    with pytest.raises(KafkaFailed, match="UnknownTopicOrPartition: there is no topic a"):
        answers.bounds_of(KAFKA, ["a"])
    assert answers.bounds_of(other, ["b"]) == {"b": {"0": Bounds(0, 1)}}


def test_what_the_search_for_topics_was_answered_is_used_once() -> None:
    """Topics that its pattern has and the answer lacks are gone: they are not asked for again."""
    source = {"format": "debezium", "topic": "s.a"}
    kafka = KAFKA.model_copy(update={"topic": "s.a,s.gone", "shared": True})
    feeds = list_feeds([table(source | {"kafka": kafka.model_dump()})])
    just_asked: JustAsked = {connection_of(kafka): {r"s\..*": {"s.a": {"0": Bounds(0, 1)}}}}
    answers = ask_brokers(Lake(None, Target(root="/lake")), feeds, just_asked)
    assert answers.bounds_of(kafka, ()) == {"s.a": {"0": Bounds(0, 1)}}
    assert just_asked == {}
