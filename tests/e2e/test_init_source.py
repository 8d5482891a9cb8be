"""`lakehouse init --source` reads a real PostgreSQL: tables, keys, types and comments."""

import shutil
import sys
from pathlib import Path

import pytest
import yaml

from cdc_lakehouse.cli.commands import app
from cdc_lakehouse.cli.front import run_command_line
from tests.e2e import postgres

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("initdb") is None, reason="no PostgreSQL here"),
]
PARTITIONED = (
    "CREATE TABLE shop.logs (day int, n int, PRIMARY KEY (day, n)) PARTITION BY RANGE (day)",
    "CREATE TABLE shop.logs_1 PARTITION OF shop.logs FOR VALUES FROM (0) TO (9)"
    " PARTITION BY HASH (n)",
    "CREATE TABLE shop.logs_1_a PARTITION OF shop.logs_1 FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
)


def test_the_tables_of_a_database_become_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setenv("SHOP_PASSWORD", "any")
    server = postgres.start("init")
    try:
        server.execute("CREATE TABLE shop.papers (id int PRIMARY KEY, text xml)")
        server.execute("COMMENT ON TABLE shop.customers IS 'People: who buy'")
        for statement in PARTITIONED:
            server.execute(statement)
        url = server.url.replace("postgres@", "postgres:env:SHOP_PASSWORD@")
        run_command_line(app, ["init", "--source", url])
        told = capsys.readouterr().out
        for name in ("logs", "papers", "orders", "order_items"):  # each by itself has all it says
            run_command_line(app, ["init", name, "--source", url])
    finally:
        server.stop()
    written = {
        file.stem: yaml.safe_load(file.read_text()) for file in Path("conf/tables").glob("*")
    }
    assert written["shop"]["tables"] == ["shop.shop.*"]
    assert written["clicks"]["keys"] == []
    assert written["customers"]["comment"] == "People: who buy"
    assert written["order_items"]["keys"] == ["order_id", "line_no"]
    assert written["orders"]["columns"]["total"] == "decimal(12,2)"
    assert written["logs"]["keys"] == ["day", "n"]
    assert written["papers"]["columns"]["text"] == "string"
    assert 'ALTER TABLE "shop"."clicks" REPLICA IDENTITY FULL;' in told
    assert "logs is a partitioned table: its 2 partitions are read as one table" in told
    assert "publish_via_partition_root = true" in " ".join(told.split())
    assert '"publish.via.partition.root": "true"' in Path("conf/connector.json").read_text()
    assert "draft them with --kafka HOST:PORT" in told
    assert "next: start the connector" in told
    assert Path("conf/connector.json").is_file()
