"""A Kafka broker of one node, of the test's own, on loopback."""

import base64
import subprocess
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e import parts
from tests.e2e.parts import PARTS, Process, java


class Broker(NamedTuple):
    """Where a broker lies and listens; `start` gives its process, also after a kill."""

    folder: Path
    port: int

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> Process:
        log = self.folder / "server.log"
        command = java([PARTS / "broker"], "kafka.Kafka", self.folder / "server.properties")
        return parts.start(command, log, "Kafka Server started")

    def create(self, topic: str, partitions: int = 1) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()

    def delete(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.delete_topics([topic])[topic].result()

    def produce(self, topic: str, records: Iterable[Mapping[str, bytes | None]]) -> None:
        """Records of `key`, `value` and, when given, `partition` and `headers`."""
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        for record in records:
            producer.produce(topic, **record)
            producer.poll(0)
        assert producer.flush(30) == 0

    def holds(self, topic: str, text: str) -> bool:
        """Whether a record of the topic, which has one partition, has this text in it."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "test"})
        consumer.assign([TopicPartition(topic, 0, 0)])
        records = consumer.consume(100_000, timeout=1)
        consumer.close()
        return any(text.encode() in (record.value() or b"") for record in records)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """What retention does: the records before an offset go."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        deleted = admin.delete_records([TopicPartition(topic, partition, offset)])
        for future in deleted.values():
            future.result()


def count_records(servers: str, topic: str) -> int:
    """How many records the first partition of a topic has had; none while there is no topic."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "count"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1])
    except KafkaException:
        return 0
    finally:
        consumer.close()


def new(name: str) -> Broker:
    """A broker that is formatted and not started yet."""
    broker = Broker(parts.folder(name), parts.free_port())
    controller = parts.free_port()
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://{broker.servers},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://{broker.servers},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": broker.folder / "data",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "log.retention.hours": -1,
    }
    file = parts.write_properties(broker.folder / "server.properties", settings)
    # An identity that began with a dash would be taken for an option.
    identity = "c" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:].rstrip("=")
    tool = ["kafka.tools.StorageTool", "format", "--standalone", "-t", identity, "-c", file]
    subprocess.run(java([PARTS / "broker"], *tool), check=True, capture_output=True)
    return broker
