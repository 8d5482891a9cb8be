"""A continuous run whose Spark Connect server is started anew ends, and the next one goes on."""

import subprocess
import time
from pathlib import Path

import pytest
import yaml

from lakehouse.config.loading import load_target
from tests.connect.server import free_port, serving
from tests.e2e.one_table import command, succeeds
from tests.helpers.captures import lines
from tests.helpers.lakes import land

PROJECT = Path(__file__).parents[2]


def test_a_run_whose_server_is_started_anew_ends_and_says_so(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    port, conf = free_port(), tmp_path / "conf"
    for kind in ("tables", "targets"):
        (conf / kind).mkdir(parents=True)
    table = (PROJECT / "conf" / "tables" / "orders.yml").read_text()
    (conf / "tables" / "orders.yml").write_text(table)
    server = {"kind": "connect", "remote": f"sc://127.0.0.1:{port}", "root": str(tmp_path)}
    (conf / "targets" / "local.yml").write_text(yaml.safe_dump(server))
    land(load_target(conf, "local"), "shop", "events.jsonl", lines("small"))
    options = ["--conf", str(conf)]
    said = tmp_path / "said"
    with said.open("w") as output, serving(tmp_path / "server", port):
        run = subprocess.Popen(
            command("run", options, "--continuous"), stdout=output, stderr=output
        )
        request.addfinalizer(run.kill)
        while not (tmp_path / "lake" / "gold").exists() and run.poll() is None:
            time.sleep(0.1)
    with serving(tmp_path / "server", port):
        assert run.wait(120) == 2
        assert "let go of its session" in said.read_text()
        succeeds("run", options)
        succeeds("verify", options, "orders")
