"""Which Kafka brokers answer, asked with real sockets."""

import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from bronze.kafka.brokers import find_unreachable


@contextmanager
def listening(backlog: int = 1) -> Iterator[str]:
    """A server that is up and never gets round to accepting what waits."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=backlog)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def refusing() -> str:
    with listening() as server:
        return server


@pytest.fixture
def silent() -> Iterator[str]:
    """A server whose system drops what asks for a connection: its queue is full."""
    with listening(backlog=0) as server:
        host, _, port = server.rpartition(":")
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex((host, int(port)))
        time.sleep(0.1)
        yield server
        for one in waiting:
            one.close()


def test_a_server_that_is_up_and_slow_is_reached() -> None:
    with listening() as slow:
        assert find_unreachable(slow) == {}
        assert find_unreachable(f"PLAINTEXT://{slow}") == {}


def test_every_server_is_named_with_its_reason(refusing: str, silent: str) -> None:
    began = time.monotonic()
    nowhere = "broker.invalid:9092"
    found = find_unreachable(f"{refusing}, {silent},{nowhere}", patience=1)
    assert time.monotonic() - began < 5
    assert list(found) == [refusing, silent, nowhere]
    assert found[refusing] == "connection refused"
    assert found[silent] == "no answer within 1 s"
    assert "name" in found[nowhere] or "no answer" in found[nowhere]


def test_a_server_that_is_named_twice_is_asked_once(refusing: str) -> None:
    began = time.monotonic()
    assert find_unreachable(f"{refusing},{refusing}", patience=30) == {
        refusing: "connection refused"
    }
    assert time.monotonic() - began < 5


def test_one_server_that_is_reached_is_enough(refusing: str, silent: str) -> None:
    with listening() as up:
        began = time.monotonic()
        assert find_unreachable(f"{refusing},{silent},{up}", patience=30) == {}
        assert time.monotonic() - began < 5


def test_an_address_of_version_6_is_told_from_its_port() -> None:
    assert list(find_unreachable("[::1]:1", patience=2)) == ["[::1]:1"]


@pytest.mark.parametrize("servers", ["broker", "", "broker:port"])
def test_what_is_no_address_is_left_to_kafkas_client(servers: str) -> None:
    assert find_unreachable(servers) == {}
