"""Concurrent writers over the tables of a live server."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Step = Callable[[Any, random.Random], int]


class Server(Protocol):
    """A database: a connection has `transaction()`, and `execute()`, which gives a cursor."""

    retried: tuple[type[Exception], ...]

    def connect(self) -> AbstractContextManager[Any]: ...


def write(
    server: Server,
    steps: Sequence[tuple[Step, int]],
    changes: int,
    writers: int,
    pause: float = 0,
) -> threading.Thread:
    """Start so many writers, who make about so many changes together; ends when all are done.

    `steps` are the transactions, each with how often it comes; one returns its number of changes,
    and stays open for the seconds of `pause`, so that those of the writers overlap.
    """
    share = changes // writers

    def all_of_them() -> None:
        threads = [
            threading.Thread(target=_write, args=(server, steps, share, at, pause))
            for at in range(writers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    whole = threading.Thread(target=all_of_them)
    whole.start()
    return whole


def _write(
    server: Server, steps: Sequence[tuple[Step, int]], changes: int, writer: int, pause: float
) -> None:
    chance = random.Random(writer)
    done = 0
    with server.connect() as connection:
        while done < changes:
            step = chance.choices([step for step, _ in steps], [often for _, often in steps])[0]
            try:
                with connection.transaction():
                    changed = step(connection, chance)
                    time.sleep(pause)
            except server.retried:
                continue
            done += changed
