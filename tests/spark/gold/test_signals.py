"""A run that goes on tells others: metrics by HTTP, alarms to a webhook, logs, lineage."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import REMOTE
from tests.helpers.receiver import receiving

ROOT = Path(__file__).parents[3]
TABLE = {
    "table": "people",
    "source": {"format": "rows", "path": "people"},
    "keys": ["id"],
    "columns": {"id": "int", "name": "string"},
    "sequence_by": "at",
    "max_dead_letters": 0,
}
PATIENCE = 120.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(REMOTE is not None, reason="its run starts a Spark of its own"),
]


def project(root: Path, webhook: str) -> dict[str, str]:
    """A project in the folder; returns the environment of its commands."""
    (root / "conf" / "tables").mkdir(parents=True)
    (root / "conf" / "targets").mkdir()
    (root / "landing" / "people").mkdir(parents=True)
    (root / "conf" / "tables" / "people.yml").write_text(yaml.safe_dump(TABLE))
    target = {"root": ".", "master": "local[2]", "alarms": {"webhook": "env:HOOK"}}
    (root / "conf" / "targets" / "local.yml").write_text(yaml.safe_dump(target))
    transport = {"type": "file", "log_file_path": str(root / "events"), "append": True}
    (root / "openlineage.yml").write_text(yaml.safe_dump({"transport": transport}))
    return os.environ | {"PYTHONPATH": str(ROOT), "HOOK": webhook}


def drop(root: Path, at: int, **row: object) -> None:
    (root / "landing" / "people" / f"{at}.jsonl").write_text(json.dumps({"at": at, **row}) + "\n")


def until(holds: Callable[[], object], run: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert run.poll() is None, "the run has ended"
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.2)


def fetch(url: str) -> dict[str, dict[str, float]]:
    """The metrics by name and by the value of the last label."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        families = text_string_to_metric_families(answer.read().decode())
        return {f.name: {[*s.labels.values()][-1]: s.value for s in f.samples} for f in families}


def test_a_run_that_goes_on_tells_how_it_does(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    said = tmp_path / "said"
    words = ["run", "--continuous", "--interval", "1s", "--metrics", "0", "--log", "json"]
    with receiving() as receiver, said.open("w") as output:
        environment = project(tmp_path, receiver.url)
        drop(tmp_path, 1, id=1, name="a")
        run = subprocess.Popen(
            [sys.executable, "-m", "lakehouse", *words], cwd=tmp_path, env=environment,
            stdout=output, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        request.addfinalizer(run.kill)
        until(lambda: "metrics at" in said.read_text(), run)
        found = re.search(r"http://[\d.:]+/metrics", said.read_text())
        assert found is not None
        assert found[0].startswith("http://127.0.0.1:")
        until(lambda: fetch(found[0]).get("lakehouse_rows", {}).get("people") == 1, run)
        with pytest.raises(HTTPError, match="404"):
            fetch(found[0].replace("/metrics", "/"))
        drop(tmp_path, 2, id="no number", name="b")
        until(lambda: receiver.texts, run)
        assert receiver.texts[0].startswith("people: dead letters: 1 dead letter")
        metrics = fetch(found[0])
        assert metrics["lakehouse_dead_letters_alert"] == {"people": 1}
        assert sum(metrics["lakehouse_dead_letters"].values()) == 1
        assert metrics["lakehouse_last_run_failed"] == {"people": 0}
        run.send_signal(signal.SIGTERM)
        assert run.wait(PATIENCE) == 0, said.read_text()
        assert len(receiver.texts) == 1
    lines = [json.loads(line) for line in said.read_text().splitlines()]
    assert {"info", "progress"} <= {line["level"] for line in lines}
    assert any(line.get("table") == "people" and line["layer"] == "silver" for line in lines)
    warned = [str(line) for line in lines if line["level"] == "warning"]
    assert any("people has 1 unresolved dead letter" in line for line in warned), warned
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert [event["eventType"] for event in events[:2]] == ["START", "COMPLETE"]
    assert {event["job"]["name"] for event in events} == {"people"}
