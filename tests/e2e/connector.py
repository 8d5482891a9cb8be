"""Debezium's connectors: into files by the engine, into topics by Kafka Connect."""

import json
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.e2e import parts
from tests.e2e.kafka_broker import Broker
from tests.e2e.parts import PARTS, Process, java, wait_for, write_properties

READY = "Starting streaming"
JSON = "org.apache.kafka.connect.json.JsonConverter"
ENVIRONMENT = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
CONVERTERS = ("key.converter", "value.converter", "header.converter")


HISTORY = "schema.history.internal"


class Server(Protocol):
    """A database that is captured.

    `connector` is what its own connector needs to know, `engine` the folder with that connector's
    engine, `schemas` whether records come with schema blocks.
    """

    @property
    def engine(self) -> str: ...
    @property
    def schemas(self) -> bool: ...
    @property
    def connector(self) -> Mapping[str, object]: ...


def settings(server: Server) -> dict[str, object]:
    """The connector's configuration; every engine gets the same."""
    converters = ("converter", *CONVERTERS)
    return {
        "name": "shop",
        "topic.prefix": "shop",
        "signal.data.collection": "shop.dbz_signal",
        "snapshot.mode": "initial",
        "skipped.operations": "none",
        "decimal.handling.mode": "string",
        "provide.transaction.metadata": "true",
        "heartbeat.interval.ms": 2000,
        "poll.interval.ms": 100,
        "max.batch.size": 256,
        "max.queue.size": 1024,
        "errors.max.retries": -1,
        **{f"{kind}.schemas.enable": str(server.schemas).lower() for kind in converters},
        **server.connector,
    }


def to_files(server: Server, folder: Path, work: Path, ready: str = READY) -> Process:
    """The embedded engine, dropping files into `folder`; remembers its place below `work`."""
    work.mkdir(parents=True, exist_ok=True)
    own: Mapping[str, object] = {
        "offset.storage": "KeptOffsets",
        "offset.storage.file.filename": work / "offsets",
        "offset.flush.interval.ms": 500,
        HISTORY: "io.debezium.storage.file.history.FileSchemaHistory",
        f"{HISTORY}.file.filename": work / "history",
    }
    file = write_properties(work / "engine.properties", settings(server) | own)
    command = java([PARTS / "classes", PARTS / server.engine], "FileDrop", folder, file)
    return parts.start(command, work / "connector.log", ready)


class Worker(NamedTuple):
    """A worker of Kafka Connect, which keeps its connector and that one's place in the broker.

    A file of offsets, as a standalone worker has it, would be empty after a kill at the wrong
    moment: then a second snapshot takes the place of the changes that were not sent yet.
    """

    broker: Broker
    folder: Path
    port: int
    server: Server

    def start(self) -> Process:
        """The worker's process; it goes on with the connector that `capture` named."""
        (self.folder / "plugins").mkdir(parents=True, exist_ok=True)
        kept = ("config", "offset", "status")
        worker = {
            "bootstrap.servers": self.broker.servers,
            "group.id": "shop",
            **{f"{kind}.storage.topic": f"connect-{kind}" for kind in kept},
            **{f"{kind}.storage.replication.factor": 1 for kind in kept},
            "offset.storage.partitions": 1,
            "status.storage.partitions": 1,
            "offset.flush.interval.ms": 500,
            # A worker that was killed is not waited for.
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 2000,
            "scheduled.rebalance.max.delay.ms": 0,
            "plugin.path": self.folder / "plugins",
            "plugin.discovery": "hybrid_warn",
            "listeners": f"http://127.0.0.1:{self.port}",
            "config.providers": "env",
            "config.providers.env.class": ENVIRONMENT,
            **dict.fromkeys(CONVERTERS, JSON),
            **{f"{kind}.schemas.enable": str(self.server.schemas).lower() for kind in CONVERTERS},
        }
        file = write_properties(self.folder / "worker.properties", worker)
        distributed = "org.apache.kafka.connect.cli.ConnectDistributed"
        command = java([PARTS / self.server.engine], distributed, file)
        own = {"DATABASE_PASSWORD": "none"}
        return parts.start(command, self.folder / "connector.log", env=own)

    def capture(self, process: Process) -> None:
        """Have the worker, which was started, send what its server shows; wait until it does."""
        converters = dict.fromkeys(CONVERTERS, JSON)
        history = {
            f"{HISTORY}.kafka.topic": "shop.history",
            f"{HISTORY}.kafka.bootstrap.servers": self.broker.servers,
        }
        given = settings(self.server) | converters | history
        text = {name: str(value) for name, value in given.items()}
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/connectors/shop/config", json.dumps(text).encode(),
            {"Content-Type": "application/json"}, method="PUT",
        )  # fmt: skip
        wait_for(lambda: _accepted(asked), 240, "the worker takes a connector")
        wait_for(lambda: READY in process.said(), 240, "streaming")


def worker(broker: Broker, folder: Path, server: Server) -> Worker:
    """A worker that is not started yet."""
    return Worker(broker, folder, parts.free_port(), server)


def _accepted(asked: urllib.request.Request) -> bool:
    """Whether the worker is there, and not just finding its group."""
    try:
        urllib.request.urlopen(asked, timeout=90).close()
    except OSError:
        return False
    return True
