from bronze.feeds import feeds
from bronze.kafka.ingest import CONNECTOR, TOKENS, jars, options, packages
from lakehouse.config.table import Kafka, Table

KAFKA = Kafka(topic="a,b", bootstrap_servers="k:9092", starting_offsets="latest")


def table(source: dict[str, object]) -> Table:
    given = {"format": "debezium", **source}
    return Table.model_validate({"table": "t", "keys": ["id"], "source": given})


def test_spark_needs_its_connector_for_kafka_only() -> None:
    assert packages([table({"path": "p"})]) == []
    assert packages([table({"path": "p"}), table({"kafka": KAFKA})]) == [CONNECTOR]
    assert jars([table({"path": "p"})]) == []
    assert jars([table({"kafka": KAFKA})]) == [TOKENS]


def test_the_stream_reads_the_topics_from_where_it_was_told() -> None:
    feed = feeds([table({"kafka": KAFKA, "max_offsets_per_trigger": 7})])[0]
    given = options(feed, KAFKA, again=False)
    chosen = [given[key] for key in ("subscribe", "startingOffsets", "maxOffsetsPerTrigger")]
    assert chosen == ["a,b", "latest", "7"]


def test_after_a_lost_checkpoint_it_reads_from_the_earliest() -> None:
    feed = feeds([table({"kafka": KAFKA})])[0]
    assert options(feed, KAFKA, again=True)["startingOffsets"] == "earliest"
