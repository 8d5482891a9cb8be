"""`lakehouse doctor`: what is missing here is told before anything starts."""

import json
import socket
import sys
from pathlib import Path

import pytest

from cdc_lakehouse.cli.check import doctor
from cdc_lakehouse.cli.commands import app
from cdc_lakehouse.cli.front import run_command_line

TABLE = """\
table: t
keys: [id]
source:
  format: debezium
  kafka: {topic: t, bootstrap_servers: "127.0.0.1:PORT"}
"""


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    run_command_line(app, ["init"])


def found(capsys: pytest.CaptureFixture[str], code: int) -> dict[str, dict[str, str]]:
    capsys.readouterr()
    try:
        run_command_line(app, ["doctor", "--format", "json"])
        left = 0
    except SystemExit as ended:
        left = int(str(ended.code))
    assert left == code
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    return {line["what"]: line for line in lines}


def test_all_is_well_here_and_a_lake_is_not_made(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        table = TABLE.replace("PORT", str(server.getsockname()[1]))
        Path("conf/tables/t.yml").write_text(table)
        known = found(capsys, 0)
    assert {known[what]["state"] for what in ("Python", "Java", "disk", "landing")} == {"ok"}
    assert known["broker"]["found"].endswith(" answers")
    assert known["lake"]["state"] == "hint" and not Path("lake").exists()


def test_what_is_missing_is_told_with_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "LEAST_FREE", 1 << 62)
    monkeypatch.setattr(doctor, "NEWEST", (3, 9))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    Path("conf/tables/t.yml").write_text(TABLE.replace("PORT", str(port)))
    Path("landing").rmdir()
    known = found(capsys, 1)
    failed = {what for what, line in known.items() if line["state"] == "FAILED"}
    assert failed == {"Python", "disk", "landing", "broker"}
    assert all(known[what]["do"] for what in failed)
    Path("conf/tables/t.yml").write_text("nonsense: 1")
    assert "lakehouse validate" in found(capsys, 1)["configuration"]["do"]


def test_a_variable_that_the_yaml_names_and_that_is_not_set_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path("conf/targets/local.yml")
    file.write_text(file.read_text() + "alarms: {webhook: 'env:HOOK'}\n")
    source = "{format: debezium, path: shop}"
    Path("conf/tables/t.yml").write_text(f"table: t\nkeys: [id]\nsource: {source}\n")
    sentence = "target local: alarms.webhook: the variable HOOK is not set on this machine"
    assert found(capsys, 1)["variable"]["found"] == sentence
    run_command_line(app, ["validate"])
    assert f"warning: {sentence}" in " ".join(capsys.readouterr().err.split())
    monkeypatch.setenv("HOOK", "https://example.org")
    assert "variable" not in found(capsys, 0)
