"""From an empty folder and a PostgreSQL database to rows in gold, by the page alone."""

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e import parts, postgres
from tests.e2e.kafka_broker import count_records
from tests.e2e.test_capture import needs_postgres
from tests.pages.dialogue import follow
from tests.pages.shell import ROOT, Shell, Told, end_servers

PAGES = ROOT / "docs" / "getting-started"
PAGE, KAFKA_PAGE = PAGES / "postgresql.md", PAGES / "postgresql-kafka.md"
START = ".venv/bin/python -m tests.e2e.playground"
EXAMPLES = {
    "SOURCE": "postgresql://me@db.example:5432/shop",
    "BROKERS": "kafka.example:9092",
    "CONNECT": "http://connect.example:8083",
}
TOPIC = "shop.public.orders"
RECORDS_BEFORE_A_RUN = [3, 7]
"""Of the topic: three rows of the snapshot; two updates, and a delete with its tombstone."""


class Playground(NamedTuple):
    """What the page's two commands for it have printed, and the addresses among that."""

    known: dict[str, Told]
    addresses: dict[str, str]


@pytest.fixture(autouse=True)
def _end_servers(tmp_path: Path) -> Iterator[None]:
    yield
    end_servers(tmp_path)


@pytest.fixture
def playground() -> Iterator[Playground]:
    """What the two commands start in the clone; all of it ends with the test."""
    installed = subprocess.run(
        [parts.INSTALL], cwd=ROOT, check=True, capture_output=True, text=True
    )
    command = [sys.executable, *shlex.split(START)[1:]]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            said = [program.stdout.readline() for _ in EXAMPLES]
            known = {parts.INSTALL: Told(0, installed.stdout), START: Told(0, "".join(said))}
            yield Playground(known, dict(re.findall(r"export (\w+)=(\S+)\n", "".join(said))))
        finally:
            program.send_signal(signal.SIGINT)
    assert program.returncode == 0


@pytest.mark.slow
@needs_postgres
def test_the_page_leads_from_a_database_to_rows_in_gold(tmp_path: Path) -> None:
    server = postgres.start("page", content=None)
    (tmp_path / "home").mkdir()
    try:
        follow(PAGE, Shell(tmp_path / "home", tmp_path), own={EXAMPLES["SOURCE"]: server.url})
    finally:
        server.stop()


@parts.needs_kafka
@pytest.mark.slow
def test_the_page_leads_through_kafka_to_rows_in_gold(
    tmp_path: Path, playground: Playground
) -> None:
    wanted = iter(RECORDS_BEFORE_A_RUN)

    def wait_for_records(command: str) -> None:
        """The page has its reader wait for the connector."""
        if command == "lakehouse run":
            count = next(wanted)
            arrived = f"{count} records in {TOPIC}"
            parts.wait_for(
                lambda: count_records(playground.addresses["BROKERS"], TOPIC) >= count,
                120,
                arrived,
            )

    home = tmp_path / "home"
    home.mkdir()
    own = {example: playground.addresses[name] for name, example in EXAMPLES.items()}
    follow(KAFKA_PAGE, Shell(home, tmp_path, known=playground.known), wait_for_records, own)
    assert next(wanted, None) is None
