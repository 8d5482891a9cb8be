import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import target_at
from tests.e2e import kafka_broker, parts
from tests.e2e.apicurio import Apicurio
from tests.e2e.kafka_broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NEEDED = {"live_shop", "node", "kafka", "playground"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without the real parts the tests are skipped, and the skip says how to get them."""
    without, without_registry = parts.missing(), parts.missing(registry=True)
    for item in items:
        if item.path.is_relative_to(parts.ROOT / "tests" / "e2e"):
            item.add_marker(pytest.mark.live)
            used = getattr(item, "fixturenames", ())
            absent = without_registry if "apicurio" in used else without
            if absent and NEEDED.intersection(used):
                told = f"{', '.join(absent)} not installed: run {parts.INSTALL}"
                item.add_marker(pytest.mark.skip(reason=told))


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    """Kills what a test started and, because it failed, did not stop."""
    before = len(parts.STARTED)
    yield
    for process in parts.STARTED[before:]:
        process.kill()


@pytest.fixture(scope="session")
def kafka() -> Iterator[Broker]:
    """A broker that runs."""
    node = kafka_broker.new("kafka")
    process = node.start()
    yield node
    process.stop()


@pytest.fixture
def apicurio() -> Apicurio:
    """A registry that the test starts and stops."""
    return Apicurio(parts.free_port())


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """A classic session with Spark's Kafka connector, or the Connect server's."""
    from bronze.kafka.ingest import CONNECTOR, TOKENS
    from lakehouse.spark.session import get_spark

    target = target_at(tmp_path_factory.mktemp("session"))
    with Path(tempfile.gettempdir(), "lakehouse-e2e-jars.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two sessions that fetch jars at once would collide
        session = get_spark(target, [CONNECTOR], [TOKENS])
    yield session
    session.stop()
