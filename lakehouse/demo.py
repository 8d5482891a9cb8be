"""The demo's captured events and the questions it asks of what came out.

The events were captured from a PostgreSQL shop by Debezium: two snapshots (the first one was
interrupted), streamed changes with repeats after a crash, key changes, truncates, new columns.
"""

import gzip
import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from lakehouse.errors import ConfigurationError
from lakehouse.table import Table
from lakehouse.target import Target

EVENTS = "demo_events/shop.jsonl.gz"
FOLDER = "shop"


class Question(NamedTuple):
    """A heading, the tables it needs, and the query whose answer is shown below it."""

    heading: str
    tables: frozenset[str]
    query: str


QUESTIONS = (
    Question(
        "One customer as of now",
        frozenset({"customers"}),
        "SELECT id, name, tier, prefs, email FROM gold.customers WHERE id = 1",
    ),
    Question(
        "The same customer over time",
        frozenset({"customers"}),
        "SELECT tier, prefs, valid_from, valid_to, is_current FROM gold.customers_history "
        "WHERE id = 1 ORDER BY valid_from",
    ),
    Question(
        "Orders and how much is in them",
        frozenset({"orders", "order_items"}),
        "SELECT o.id, o.status, o.total, sum(i.qty) AS pieces FROM gold.orders o "
        "LEFT JOIN gold.order_items i ON i.order_id = o.id "
        "GROUP BY o.id, o.status, o.total ORDER BY o.id",
    ),
)


def of_the_shop(tables: Sequence[Table]) -> list[Table]:
    """The tables that read the demo's folder.

    Raises:
        ConfigurationError: there are none.
    """
    mine = [table for table in tables if any(feed.path == FOLDER for feed in table.feeds)]
    if not mine:
        expected = f"tables with source.path: {FOLDER}"
        action = "leave --conf and --table out"
        raise ConfigurationError("command line", "--conf", "no such table", expected, action)
    return mine


def questions(tables: Sequence[Table]) -> list[Question]:
    """The questions that these tables can answer."""
    there = {table.table for table in tables}
    return [question for question in QUESTIONS if question.tables <= there]


def place_events(target: Target) -> Path:
    """Drop the events into the landing folder as one file, unless they lie there already.

    Raises:
        ConfigurationError: the target is not a local one.
    """
    if target.kind != "local":
        expected = "a local target: the demo brings its own Spark"
        raise ConfigurationError(
            "command line", "--target", target.name, expected, "leave --target out"
        )
    file = Path(target.landing, FOLDER, "shop.jsonl")
    text = gzip.decompress(files("lakehouse").joinpath(EVENTS).read_bytes())
    if not file.exists() or file.stat().st_size != len(text):
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(f".{file.name}.{os.getpid()}")
        unfinished.write_bytes(text)
        unfinished.rename(file)
    return file


def configuration(conf: Path) -> Path:
    """The folder itself, or the demo's own where there is no such folder."""
    package = Path(str(files("lakehouse")))
    places = [conf, package / "demo_conf", package.parent / "conf"]
    return next((place for place in places if (place / "targets").is_dir()), conf)


def hints(options: str) -> str:
    """What to type next, with the options that lead to the same lake."""
    ask = f"lakehouse sql{options}"
    return (
        "Ask further:\n"
        f'  {ask} "SHOW TABLES IN gold"\n'
        f'  {ask} "SELECT * FROM gold.products"\n'
        f'  {ask} --format json "SELECT * FROM gold.orders_history ORDER BY id, valid_from"\n'
        f"  lakehouse status{options}\n"
        "Drop more files of events into the landing folder, then: "
        f"lakehouse run{options}"
    )
