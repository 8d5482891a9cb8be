"""Checks whether any Kafka broker of a feed can be reached, before Spark waits for minutes.

The check only opens a TCP connection: it needs no rights, and slow brokers accept it too.
"""

import queue
import re
import socket
import threading
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession

from lakehouse.remedies import NO_BROKER_ANSWERS

PATIENCE = 10.0
"""Seconds for all servers together; Kafka's client gives one connection as much."""

_ADDRESS = re.compile(r"\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)$")
_SILENT = "no answer"


def unreachable_brokers(spark: SparkSession, asked: Collection[str]) -> dict[str, str]:
    """A message about unreachable bootstrap servers, by their text in the feeds.

    Only checked if this process is Spark's driver: a Spark Connect server may reach brokers that
    its client cannot, and Kafka's own client reports them there.
    """
    if not asked or not isinstance(spark, SparkSession):
        return {}
    with ThreadPoolExecutor(len(asked)) as pool:
        answers = dict(zip(asked, pool.map(find_unreachable, asked), strict=True))
    return {
        servers: f"{NO_BROKER_ANSWERS}: {', '.join(f'{s} ({why})' for s, why in reasons.items())}"
        for servers, reasons in answers.items()
        if reasons
    }


def find_unreachable(servers: str, patience: float = PATIENCE) -> dict[str, str]:
    """Why each of the servers cannot be reached; empty if one of them can.

    `servers` is Kafka's `host:port,host:port`. Empty too if one of them is not an address: Kafka's
    client reports that at once.
    """
    named = [server.strip() for server in servers.split(",") if server.strip()]
    addresses = {server: _ADDRESS.search(server) for server in named}
    if not all(addresses.values()):
        return {}
    answers: queue.SimpleQueue[tuple[str, str | None]] = queue.SimpleQueue()
    for server, place in addresses.items():
        if place is not None:
            asked = server, (place[1], int(place[2])), answers, patience
            threading.Thread(target=_try_to_connect, args=asked, daemon=True).start()
    reasons, end = dict[str, str](), time.monotonic() + patience
    while len(reasons) < len(addresses):
        try:
            server, reason = answers.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
        if reason is None:
            return {}
        reasons[server] = reason
    silent = f"{_SILENT} within {patience:g} s"
    return {server: reasons.get(server, silent) for server in named}


def _try_to_connect(
    server: str,
    address: tuple[str, int],
    answers: "queue.SimpleQueue[tuple[str, str | None]]",
    patience: float,
) -> None:
    """Adds to the answers why the server cannot be connected to, or None if it can."""
    reason: str | None = None
    try:
        socket.create_connection(address, patience).close()
    except TimeoutError:
        reason = f"{_SILENT} within {patience:g} s"
    except (OSError, ValueError, OverflowError) as failure:
        # The system's message, without its number.
        words = failure.strerror if isinstance(failure, OSError) else None
        reason = (words or str(failure) or type(failure).__name__).lower()
    answers.put((server, reason))
