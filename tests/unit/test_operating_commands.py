import sys
from pathlib import Path

import pytest

from cdc_lakehouse.cli.commands import app
from cdc_lakehouse.cli.front import enter
from cdc_lakehouse.cli.work.erase import Erasure
from lakehouse.config.table import Table

ORDERS = "table: orders\nsource: {format: debezium, path: shop}\nkeys: [id]\n"


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    for folder in ("tables", "targets"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tables" / "orders.yml").write_text(ORDERS)
    (tmp_path / "targets" / "local.yml").write_text("kind: local\nroot: .\n")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rebuild", "order"], "did you mean orders?"),
        (["erase", "order", "--key", '{"id": 7}'], "did you mean orders?"),
        (["erase", "orders", "--key", '{"name": 7}'], "--key"),
        (["erase", "orders", "--key", '{"id": 7, "more": 1}'], "--key"),
        (["maintain", "--table", "order"], "did you mean orders?"),
    ],
)
def test_wrong_usage_is_told_before_spark_starts(
    conf: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    with pytest.raises(SystemExit) as left:
        enter(app, [*arguments, "--conf", str(conf)])
    assert left.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("command", ["rebuild", "erase", "maintain"])
def test_every_command_tells_what_it_does(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    enter(app, [command, "--help"])
    assert f"{command} [OPTIONS]" in capsys.readouterr().out


def test_an_erasure_is_named_by_a_digest_that_is_the_same_when_it_is_repeated() -> None:
    source = {"format": "ydb", "path": "t"}
    table = Table.model_validate({"table": "t", "source": source, "keys": ["id"]})
    names = {Erasure(table, {"id": key}, False, print).run_id for key in ("7", "7", "8")}
    assert len(names) == 2
    assert all(name.startswith("erase-") and len(name) == 30 for name in names)
