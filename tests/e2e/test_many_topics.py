"""One file makes tables of all topics of a broker, of those too that appear between and in runs."""

import json
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.kafka_broker import Broker
from tests.e2e.live import CATCH_UP_SECONDS, lakehouse, project
from tests.e2e.parts import needs_kafka, wait_for
from tests.spark.commands.test_dead_letter_edit import Terminal

MANY = """
tables: "{0}.public.*"
except: ["{0}.public.audit_*"]
source: {{format: debezium, kafka: {{bootstrap_servers: "{1}"}}}}
"""


def events(*changes: tuple[str, int, str], keyed: bool = True) -> Iterable[dict[str, bytes | None]]:
    for at, (operation, id, note) in enumerate(changes):
        row = {"id": id, "note": note}
        value = {"op": operation, "before": None, "after": row, "source": {"lsn": at}}
        value |= {"before": row, "after": None} if operation == "d" else {}
        key = json.dumps({"payload": {"id": id}}).encode() if keyed else None
        yield {"key": key, "value": json.dumps(value).encode()}


def gold(terminal: Terminal, tables: Iterable[str]) -> dict[str, list[tuple[int, str]]]:
    """The rows of all tables, by one query."""
    parts = [f"SELECT '{name}' AS t, id, note FROM gold.{name}" for name in tables]
    query = f"{' UNION ALL '.join(parts)} ORDER BY t, id"
    found: dict[str, list[tuple[int, str]]] = {name: [] for name in tables}
    for line in terminal("sql", query, "--format", "json").splitlines():
        row: dict[str, Any] = json.loads(line)
        found[row["t"]].append((row["id"], row["note"]))
    return found


def told(terminal: Terminal, *arguments: str) -> str:
    """Answers and warnings of a command, on one line."""
    return " ".join(f"{terminal(*arguments)} {terminal.warned}".split())


@needs_kafka
@pytest.mark.slow
@pytest.mark.parametrize("many", [12, 200])
def test_every_topic_is_a_table_whenever_it_appears(
    spark: SparkSession,
    kafka: Broker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    many: int,
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setenv("COLUMNS", "200")
    shop, conf, terminal = f"shop{many}", project(tmp_path), Terminal(tmp_path, capsys)
    (conf / "tables" / f"{shop}.yml").write_text(MANY.format(shop, kafka.servers))
    (conf / "tables" / "t1.yml").write_text("table: t1\nstored_as_scd_type: 2\n")
    names = [f"t{at}" for at in range(many)]
    for name in [*names, "notes", "audit_log"]:
        kafka.create(f"{shop}.public.{name}")
        changes = [("c", 1, name), ("c", 2, "x"), ("d", 2, "x")]
        kafka.produce(f"{shop}.public.{name}", events(*changes, keyed=name != "notes"))
    said = told(terminal, "run")
    assert f"{many} new tables: t0, t1, t10" in said
    assert f"notes: waits, as no record of {shop}.public.notes has a key" in said
    assert gold(terminal, names) == {name: [(1, name)] for name in names}
    history = terminal("sql", "SELECT id FROM gold.t1_history", "--format", "json")
    assert len(history.splitlines()) == 2

    later = ["u1", "u2", "u3"]
    for name in later:
        kafka.create(f"{shop}.public.{name}")
        kafka.produce(f"{shop}.public.{name}", events(("c", 1, "first"), ("u", 1, name)))
    kafka.delete(f"{shop}.public.t0")
    (conf / "tables" / "notes.yml").write_text("table: notes\nkeys: [id]\n")
    said = told(terminal, "run")
    assert "3 new tables: u1, u2, u3" in said
    assert f"t0: the source no longer has the topic {shop}.public.t0" in said
    status = told(terminal, "status")
    assert status.count("3 new tables: u1, u2, u3") == 1
    assert f"the source no longer has the topic {shop}.public.t0" in status
    assert f"ok: {many + 4} tables" in told(terminal, "validate")
    told(terminal, "rebuild", "u1")

    process = lakehouse(
        conf, tmp_path, "run", "--continuous", "--interval", "1s", ready="until interrupted"
    )
    assert "new table" not in process.said()
    for name in ["v1", "v2"]:
        kafka.create(f"{shop}.public.{name}")
        kafka.produce(f"{shop}.public.{name}", events(("c", 1, name)))
    kafka.produce(f"{shop}.public.u2", events(("c", 3, "more")))

    def is_applied() -> bool:
        lines = process.said().splitlines()
        return all(any(line.startswith(f"{name} ") for line in lines) for name in ("v1", "v2"))

    wait_for(is_applied, CATCH_UP_SECONDS, "the new tables")
    process.stop(CATCH_UP_SECONDS, signal.SIGINT)  # the first look at all tables is finished first
    found = gold(terminal, [*names, *later, "v1", "v2", "notes"])
    assert {name: found[name] for name in names} == {name: [(1, name)] for name in names}
    assert [found[name] for name in ("u1", "u3", "v1", "v2", "notes")] == [
        [(1, "u1")], [(1, "u3")], [(1, "v1")], [(1, "v2")], [(1, "notes")],
    ]  # fmt: skip
    assert found["u2"] == [(1, "u2"), (3, "more")]
