"""Debezium's PostgreSQL connector: into files by the engine, into topics by Kafka Connect."""

from collections.abc import Mapping
from pathlib import Path

from tests.e2e import parts
from tests.e2e.broker import Broker
from tests.e2e.parts import PARTS, Process, java, write_properties
from tests.e2e.postgres import Postgres

READY = "Starting streaming"
JSON = "org.apache.kafka.connect.json.JsonConverter"
CONVERTERS = ("key.converter", "value.converter", "header.converter")


def settings(server: Postgres) -> dict[str, object]:
    """The connector's configuration; every engine gets the same."""
    return {
        "name": "shop",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": server.port,
        "database.user": "postgres",
        "database.password": "none",
        "database.dbname": "shop",
        "topic.prefix": "shop",
        "slot.name": "shop",
        "publication.name": "shop",
        "publication.autocreate.mode": "disabled",
        "schema.include.list": "shop",
        "signal.data.collection": "shop.dbz_signal",
        "snapshot.mode": "initial",
        "skipped.operations": "none",
        "decimal.handling.mode": "string",
        "provide.transaction.metadata": "true",
        "heartbeat.interval.ms": 2000,
        "poll.interval.ms": 100,
        "max.batch.size": 256,
        "max.queue.size": 1024,
        "slot.drop.on.stop": "false",
        "errors.max.retries": -1,
    }


def to_files(server: Postgres, folder: Path, work: Path, ready: str = READY) -> Process:
    """The embedded engine, dropping files into `folder`; remembers its place below `work`."""
    work.mkdir(parents=True, exist_ok=True)
    own: Mapping[str, object] = {
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": work / "offsets",
        "offset.flush.interval.ms": 500,
        "converter.schemas.enable": "false",
        **{f"{kind}.schemas.enable": "false" for kind in CONVERTERS},
    }
    file = write_properties(work / "engine.properties", settings(server) | own)
    command = java([PARTS / "classes", PARTS / "engine"], "FileDrop", folder, file)
    return parts.start(command, work / "connector.log", ready)


def to_kafka(server: Postgres, broker: Broker, work: Path, ready: str = READY) -> Process:
    """Kafka Connect with the connector in it; remembers its place below `work`."""
    (work / "plugins").mkdir(parents=True, exist_ok=True)
    worker = {
        "bootstrap.servers": broker.servers,
        "offset.storage.file.filename": work / "offsets",
        "offset.flush.interval.ms": 500,
        "plugin.path": work / "plugins",
        "plugin.discovery": "hybrid_warn",
        "listeners": f"http://127.0.0.1:{parts.free_port()}",
        "header.converter": JSON,
        "key.converter": JSON,
        "value.converter": JSON,
        **{f"{kind}.schemas.enable": "false" for kind in CONVERTERS},
    }
    worker_file = write_properties(work / "worker.properties", worker)
    file = write_properties(work / "connector.properties", {**settings(server), "tasks.max": 1})
    standalone = "org.apache.kafka.connect.cli.ConnectStandalone"
    command = java([PARTS / "engine"], standalone, worker_file, file)
    return parts.start(command, work / "connector.log", ready)
