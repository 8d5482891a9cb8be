"""What commands do where something outside is wrong: no lake, no server, no password, Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cdc_lakehouse.cli.commands import app
from cdc_lakehouse.cli.front import run_command_line
from cdc_lakehouse.cli.work.rounds import fail_at_the_end
from gold.source_check.database import check_url
from lakehouse.errors import ConfigurationError, ManyTablesFailed, TableFailed
from tests.unit.cdc_lakehouse.test_cli import entry

ROOT = Path(__file__).parents[3]
ORDERS = "table: orders\nsource: {format: debezium, path: shop}\nkeys: [id]\n"
COLUMNS = "columns: {id: bigint, customer_id: bigint}\n"
RULE = "expectations: [{type: expect_column_values_to_not_be_null, column: custmer_id}]\n"


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    for folder in ("tables", "targets"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tables" / "orders.yml").write_text(ORDERS)
    (tmp_path / "targets" / "local.yml").write_text("kind: local\nroot: .\n")
    return tmp_path


def exit_code(conf: Path, *arguments: str) -> object:
    try:
        run_command_line(app, [*arguments, "--conf", str(conf)])
    except SystemExit as left:
        return left.code
    return 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["sql", "SELECT 1"],
        ["status"],
        ["report"],
        ["verify", "orders"],
        ["explain", "orders", "--key", '{"id": 7}'],
        ["dead-letters", "list"],
        ["erase", "orders", "--key", '{"id": 7}'],
        ["rebuild", "orders"],
        ["maintain", "--dry-run"],
    ],
    ids=lambda given: str(given[0]),
)
def test_who_asks_a_lake_that_is_not_there_makes_none(
    conf: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    nowhere = conf / "nope"
    assert exit_code(conf, *arguments, "--root", str(nowhere)) == 2
    told = capsys.readouterr().err
    assert f"no lake in {nowhere}" in told and "lakehouse run" in told
    assert not nowhere.exists()


def test_validate_refuses_a_rule_on_a_column_that_complete_columns_lack(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (conf / "tables" / "orders.yml").write_text(ORDERS + COLUMNS + RULE)
    assert exit_code(conf, "validate") == 2
    told = capsys.readouterr().err
    assert "expectations[0].column" in told and "customer_id" in told


def test_a_typo_of_an_expectation_gets_the_right_name(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typo = "expectations: [{type: expect_column_values_not_to_be_null, column: id}]\n"
    (conf / "tables" / "orders.yml").write_text(ORDERS + typo)
    assert exit_code(conf, "validate") == 2
    assert "expected: expect_column_values_to_not_be_null" in capsys.readouterr().err


def test_a_password_comes_out_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "p@ss/word")
    url = check_url("postgresql://me:env:SHOP_PASSWORD@db.example:5433/shop")
    assert (url.password, url.host, url.port) == ("p@ss/word", "db.example", 5433)
    assert url.drivername == "postgresql+psycopg"


def test_a_password_that_the_environment_lacks_is_named_and_never_shown() -> None:
    with pytest.raises(ConfigurationError, match="export NO_SUCH_PASSWORD=…"):
        check_url("postgresql://me:env:NO_SUCH_PASSWORD@db.example/shop")
    with pytest.raises(ConfigurationError) as wrong:
        check_url("nosql://me:secret@db.example/shop")
    assert "secret" not in str(wrong.value)


@pytest.mark.parametrize(
    "feed",
    [
        "path: shop, topic: shop.public.orders",
        "kafka: {topic: shop.public.orders, bootstrap_servers: 'b:1'}",
    ],
)
def test_a_source_that_does_not_answer_is_code_3(
    feed: str, conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = ORDERS.replace("path: shop", feed)
    (conf / "tables" / "orders.yml").write_text(orders)
    url = "postgresql://me:secret@127.0.0.1:1/shop"
    assert exit_code(conf, "rebootstrap", "orders", "--source", url) == 3
    told = capsys.readouterr().err
    assert "cannot be reached" in told and "  do: " in told and "secret" not in told


def test_a_spark_server_that_does_not_answer_is_code_3(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = f"kind: connect\nremote: sc://127.0.0.1:1\nroot: {conf}\n"
    (conf / "targets" / "far.yml").write_text(target)
    assert exit_code(conf, "run", "--target", "far") == 3
    assert "start the server" in capsys.readouterr().err


def test_where_no_table_can_reach_its_broker_the_run_has_that_code() -> None:
    gone = entry("a", "failed", message="KafkaException: Timed out waiting for a node")
    for entries, code in (([gone, gone], 3), ([gone, entry("b", "failed")], 1)):
        with pytest.raises(ManyTablesFailed) as failed:
            fail_at_the_end(entries)
        assert failed.value.exit_code == code
    assert TableFailed("a", "b").exit_code == 1


def test_ctrl_c_says_where_the_work_was_broken_off(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from cdc_lakehouse.cli.front import handle_interrupt, make_application, run_command_line\n"
        "from cdc_lakehouse.terminal.console import show_progress\n"
        "app = make_application('x')\n"
        "@app.command()\n"
        "@handle_interrupt\n"
        "def work() -> None:\n"
        "    with show_progress('silver') as tell:\n"
        "        tell('orders')\n"
        "        print('ready', flush=True)\n"
        "        time.sleep(60)\n"
        "run_command_line(app, [])\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert running.stdout is not None and running.stdout.readline() == "ready\n"
    time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "error: interrupted during silver: orders\n" in told and "  do: " in told
    assert "Traceback" not in told


@pytest.mark.parametrize("module", ["lakehouse", "bronze"])
def test_ctrl_c_while_a_command_is_loaded_is_told_without_a_traceback(module: str) -> None:
    """Its first import of any size stands still until the signal is there."""
    code = (
        "import builtins, runpy, sys, time\n"
        "real = builtins.__import__\n"
        "def slow(name, *args, **more):\n"
        "    if name == 'pydantic':\n"
        "        print('ready', flush=True)\n"
        "        time.sleep(60)\n"
        "    return real(name, *args, **more)\n"
        "builtins.__import__ = slow\n"
        f"sys.argv = ['{module}']\n"
        f"runpy.run_module('{module}', run_name='__main__')\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert running.stdout is not None and running.stdout.readline() == "ready\n"
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=30)
    assert running.returncode == 130
    assert told.startswith("error: interrupted\n") and "  do: " in told
    assert "Traceback" not in told
