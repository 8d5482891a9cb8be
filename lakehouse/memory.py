"""What a run knows of what it alone writes, from one round to the next.

A run holds the locks of its feeds and tables (see `lakehouse.locks`), so what it has read of them,
or written itself, stays true until it ends. What went wrong is forgotten and read anew. A target
with a catalog has no locks, and its runs remember nothing.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

Topics = Mapping[str | None, int]


class Arrived(NamedTuple):
    """The newest batch of one feed; of those above the batch `since`, the newest by topic.

    `looked_through` is the one up to which holes were looked for, None where the ledger tells.
    """

    newest: int
    topics: Topics
    since: int = 0
    looked_through: int | None = None


class Memory:
    """What a run knows: of each feed what arrived, of each table a `silver.known.Known`.

    And of some tables what their last batch showed, a `silver.debezium_recall.Recalled`. Those
    classes are silver's, which nothing here may import.
    """

    def __init__(self) -> None:
        self.feeds: dict[str, Arrived] = {}
        self.tables: dict[str, Any] = {}
        self.shown: dict[str, Any] = {}
