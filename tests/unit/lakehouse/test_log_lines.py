"""With `--log json` whatever is no answer is one JSON object a line."""

import json
import time
from datetime import datetime, timezone

import pytest

from cdc_lakehouse.cli.work.run_lines import show_entries
from cdc_lakehouse.terminal import console, verbosity
from lakehouse.run.ledger import Entry

NOW = datetime(2026, 1, 31, tzinfo=timezone.utc)


@pytest.fixture(autouse=True)
def _json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbosity, "_form", [])
    monkeypatch.setenv("LAKEHOUSE_LOG", "json")
    monkeypatch.setattr(console, "HEARTBEAT_SECONDS", 0.01)


def objects(text: str) -> list[dict[str, object]]:
    found = [json.loads(line) for line in text.splitlines()]
    assert all(datetime.fromisoformat(each["at"].replace("Z", "+00:00")).tzinfo for each in found)
    return found


def test_news_warnings_errors_and_progress(capsys: pytest.CaptureFixture[str]) -> None:
    console.say("news")
    console.warn("a warning " * 20)
    console.show_error("one\n  found: two")
    with console.show_progress("working") as tell:
        tell("step")
        time.sleep(0.1)
    told = capsys.readouterr()
    assert [(each["level"], each["message"]) for each in objects(told.out)] == [("info", "news")]
    warning, error, *beats = objects(told.err)
    assert (warning["level"], error["level"]) == ("warning", "error")
    assert error["message"] == "one\n  found: two"
    assert beats
    assert all(beat["level"] == "progress" for beat in beats)
    assert "working: step" in str(beats[-1]["message"])


def test_a_run_tells_an_object_for_each_table_and_layer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ran = {"run_id": "r", "started_at": NOW, "ended_at": NOW, "duration_ms": 1500}
    entries = [
        Entry(layer="silver", table="orders", counts={"records": 3, "I": 3, "U": 0}, **ran),
        Entry(layer="gold", table="orders", status="failed", message="no space", **ran),
    ]
    show_entries(entries)
    done, failed = objects(capsys.readouterr().out)
    assert done["counts"] == {"records": 3, "I": 3}
    assert (done["level"], done["table"], done["layer"]) == ("info", "orders", "silver")
    assert (done["seconds"], done["status"], done["run_id"]) == (1.5, "ok", "r")
    assert (failed["level"], failed["message"], failed["status"]) == ("error", "no space", "failed")


def test_the_option_goes_before_the_variable(capsys: pytest.CaptureFixture[str]) -> None:
    verbosity.set_form("text")
    console.say("news")
    assert capsys.readouterr().out == "news\n"
