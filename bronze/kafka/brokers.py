"""Whether any of a feed's Kafka brokers can be reached, asked before Spark waits for minutes.

The question is a TCP connection and nothing more: it needs no rights, and a broker that is up and
slow accepts it.
"""

import queue
import re
import socket
import threading
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession

from lakehouse.remedies import NO_BROKER_ANSWERS

PATIENCE = 10.0
"""Seconds for all servers together; Kafka's client gives one connection as much."""

_ADDRESS = re.compile(r"\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)$")
_SILENT = "no answer"


def unreachable_brokers(spark: SparkSession, asked: Collection[str]) -> dict[str, str]:
    """What to tell of the bootstrap servers that do not answer, by the feeds' text of them.

    They are asked from this process, where that is Spark's driver. A Spark Connect server may
    reach what its client does not: there Kafka's own client finds out.
    """
    if not asked or not isinstance(spark, SparkSession):
        return {}
    with ThreadPoolExecutor(len(asked)) as pool:
        found = dict(zip(asked, pool.map(unreachable, asked), strict=True))
    return {servers: _named(reasons) for servers, reasons in found.items() if reasons}


def unreachable(servers: str, patience: float = PATIENCE) -> dict[str, str]:
    """Why each of the servers cannot be reached; empty as soon as one of them can.

    `servers` are Kafka's `host:port,host:port`. One that is not an address is left to Kafka's
    client, which says so at once: the answer is empty.
    """
    named = [server.strip() for server in servers.split(",") if server.strip()]
    found = {server: _ADDRESS.search(server) for server in named}
    if not all(found.values()):
        return {}
    answers: queue.SimpleQueue[tuple[str, str | None]] = queue.SimpleQueue()
    for server, place in found.items():
        if place is not None:
            asked = server, (place[1], int(place[2])), answers, patience
            threading.Thread(target=_ask, args=asked, daemon=True).start()
    reasons, end = dict[str, str](), time.monotonic() + patience
    while len(reasons) < len(found):
        try:
            server, reason = answers.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
        if reason is None:
            return {}
        reasons[server] = reason
    silent = f"{_SILENT} within {patience:g} s"
    return {server: reasons.get(server, silent) for server in named}


def _ask(
    server: str,
    address: tuple[str, int],
    answers: "queue.SimpleQueue[tuple[str, str | None]]",
    patience: float,
) -> None:
    """Put why no connection to the server is made, or None, among the answers."""
    reason: str | None = None
    try:
        socket.create_connection(address, patience).close()
    except TimeoutError:
        reason = f"{_SILENT} within {patience:g} s"
    except (OSError, ValueError, OverflowError) as failure:
        reason = _told(failure)
    answers.put((server, reason))


def _named(reasons: Mapping[str, str]) -> str:
    each = ", ".join(f"{server} ({reason})" for server, reason in reasons.items())
    return f"{NO_BROKER_ANSWERS}: {each}"


def _told(failure: Exception) -> str:
    """The system's words for it, without the number."""
    words = failure.strerror if isinstance(failure, OSError) else None
    return (words or str(failure) or type(failure).__name__).lower()
