"""From an empty folder and a PostgreSQL database to rows in gold, by the page alone."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e import parts
from tests.e2e.broker import count_records
from tests.pages.dialogue import follow
from tests.pages.shell import ROOT, Shell

PAGE = ROOT / "docs" / "getting-started" / "postgresql.md"
TOPIC = "shop.public.orders"
RECORDS_BEFORE_A_RUN = [3, 7]
"""Of the topic: three rows of the snapshot; two updates, and a delete with its tombstone."""


@pytest.fixture
def playground() -> Iterator[Mapping[str, str]]:
    """The variables that the page's program prints; all it started ends with it."""
    command = [sys.executable, "-m", "tests.e2e.playground"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            said = [program.stdout.readline() for _ in range(3)]
            yield dict(re.fullmatch(r"export (\w+)=(\S+)\n", line).groups() for line in said)
        finally:
            program.send_signal(signal.SIGINT)
    assert program.returncode == 0


@parts.needs_kafka
def test_the_page_leads_from_a_database_to_rows_in_gold(
    tmp_path: Path, playground: Mapping[str, str]
) -> None:
    wanted = iter(RECORDS_BEFORE_A_RUN)

    def wait_for_records(command: str) -> None:
        """The page has its reader wait for the connector."""
        if command == "lakehouse run":
            count = next(wanted)
            arrived = f"{count} records in {TOPIC}"
            parts.wait_for(
                lambda: count_records(playground["BROKERS"], TOPIC) >= count, 120, arrived
            )

    home = tmp_path / "home"
    home.mkdir()
    follow(PAGE, Shell(home, tmp_path, playground), wait_for_records)
    assert next(wanted, None) is None
