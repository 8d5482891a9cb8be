"""What the connector itself promises: a kill repeats changes and never skips one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import connector, postgres
from tests.e2e.parts import wait_for
from tests.e2e.postgres import Postgres

pytestmark = pytest.mark.live


@pytest.fixture
def live_shop() -> Iterator[Postgres]:
    server = postgres.start("connector")
    yield server
    server.stop()


def captured(folder: Path) -> set[int]:
    """The ids of the table `staging` whose records were dropped."""
    lines = [line for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    records = [json.loads(line) for line in lines]
    return {record["key"]["id"] for record in records if record["topic"] == "shop.shop.staging"}


def test_a_killed_connector_skips_nothing_of_a_transaction_that_overlaps(
    live_shop: Postgres, tmp_path: Path
) -> None:
    """Where it resumes, at the end of a commit, begins a change of one that is open.

    Debezium before 3.7 took that change for the commit and skipped all before its next one.
    """
    dropped, work = tmp_path / "dropped", tmp_path / "engine"
    capture = connector.to_files(live_shop, dropped, work)
    into = "INSERT INTO shop.staging VALUES"
    with live_shop.connect() as open_one, open_one.transaction():
        open_one.execute(f"{into} (901, 'open')")
        (before,) = live_shop.rows("SELECT pg_current_wal_insert_lsn()::text")[0]
        live_shop.execute(f"{into} (902, 'done')")
        open_one.execute(f"{into} (903, 'open')")
        wait_for(lambda: 902 in captured(dropped), 60, "the transaction that is done")
        stored = f"SELECT confirmed_flush_lsn > '{before}' FROM pg_replication_slots"
        wait_for(lambda: live_shop.rows(stored) == [(True,)], 60, "its acknowledgement")
        capture.kill()
        open_one.execute(f"{into} (904, 'open')")
    capture = connector.to_files(live_shop, dropped, work)
    wait_for(lambda: 904 in captured(dropped), 60, "the transaction that was open")
    capture.stop()
    assert captured(dropped) >= {901, 902, 903, 904}


def test_an_engine_killed_while_it_writes_down_its_place_goes_on_from_there(
    live_shop: Postgres, tmp_path: Path
) -> None:
    """Kafka's own store of offsets then takes the empty file for a new beginning."""
    dropped, work = tmp_path / "dropped", tmp_path / "engine"
    capture = connector.to_files(live_shop, dropped, work)
    live_shop.execute("INSERT INTO shop.staging VALUES (1, 'a')")
    wait_for(lambda: 1 in captured(dropped), 60, "the first change")
    wait_for(lambda: any(work.glob("offsets*")), 60, "a place that is written down")
    capture.kill()
    (work / "offsets").write_bytes(b"")
    live_shop.execute("INSERT INTO shop.staging VALUES (2, 'b')", "DELETE FROM shop.staging")
    capture = connector.to_files(live_shop, dropped, work)
    wait_for(lambda: 2 in captured(dropped), 60, "what was written meanwhile")
    capture.stop()
