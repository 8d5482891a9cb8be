"""Typical mistakes of a first hour: each message names the mistake and the next step.

All are found before Spark starts. A message is one block on stderr: where, what was found, what was
expected, what to do; wrong usage of the command line is click's, which names the help.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from cdc_lakehouse.cli.commands import app
from cdc_lakehouse.cli.front import run_command_line

ORDERS = "table: orders\nsource: {format: debezium, path: shop}\nkeys: [id]\n"
RULE = "expectations: [{type: expect_column_values_to_"


class Mistake(NamedTuple):
    """A command, a YAML of `orders` (else a sound one), and what the message must hold."""

    command: str
    named: str
    step: str
    yaml: str = ORDERS
    more: str = ""
    code: int = 2


def written(yaml: str, named: str, step: str, more: str = "", command: str = "validate") -> Mistake:
    return Mistake(command, named, step, yaml, more)


MISTAKES = {
    # In a table's YAML.
    "a misspelt key": written(ORDERS + "on_delet: flag\n", "on_delet", "did you mean on_delete?"),
    "an option without effect": written(
        ORDERS.replace("path: shop", "path: shop, interval_handling_mode: string"),
        "source.interval_handling_mode",
        "remove it: an interval is what its records have",
    ),
    "no keys": written(ORDERS.replace("keys: [id]\n", ""), "the key keys", "add keys"),
    "keys as a text": written(ORDERS.replace("[id]", "id"), '"id"', "write a list"),
    "a misspelt format": written(
        ORDERS.replace("debezium", "debezum"), '"debezum"', "did you mean debezium?"
    ),
    "neither path nor topic": written(
        ORDERS.replace(", path: shop", ""), "neither path nor kafka", "keep one of them"
    ),
    "an absolute path": written(
        ORDERS.replace("path: shop", "path: /data"), "/data", "relative to the landing root"
    ),
    "rows without an order": written(
        ORDERS.replace("debezium", "rows"), "sequence_by", "name what orders the changes of a key"
    ),
    "a third type of history": written(
        ORDERS + "stored_as_scd_type: 3\n", "stored_as_scd_type", "choose one of them"
    ),
    "a misspelt column type": written(
        ORDERS + "columns: {qty: itn}\n", "columns.qty.type", "did you mean int?"
    ),
    "a type of another database": written(
        ORDERS + "columns: {qty: varchar2(9)}\n", "columns.qty.type", "did you mean string?"
    ),
    "a key left out": written(
        ORDERS + "except_column_list: [id]\n", "no key column", "remove id from the list"
    ),
    "tracked columns without a history": written(
        ORDERS + "track_history_column_list: [a]\n", "stored_as_scd_type: 2", "keep a history"
    ),
    "a duration in words": written(
        ORDERS + "max_staleness: ten minutes\n", '"ten minutes"', "'10 minutes'"
    ),
    "a snapshot file of unknown kind": written(
        ORDERS.replace("debezium", "snapshot"), "source.mode", "add mode: full or delta"
    ),
    "a password in the file": written(
        "table: orders\nsource: {format: debezium, kafka: {topic: t, bootstrap_servers: 'b:9092',"
        " security: {sasl.jaas.config: secret}}}\nkeys: [id]\n",
        "sasl.jaas.config",
        "keep the secret there and name it here",
    ),
    "a misspelt expectation": written(
        ORDERS + RULE + "be_betwen, column: id}]\n",
        "be_betwen",
        "expect_column_values_to_be_between",
    ),
    "an expectation's opposite": written(
        ORDERS + "expectations: [{type: expect_column_values_not_to_be_null, column: id}]\n",
        "expect_column_values_not_to_be_null",
        "expect_column_values_to_not_be_null",
    ),
    "an expectation without its argument": written(
        ORDERS + RULE + "be_in_set, column: id}]\n",
        "value_set",
        "expect_column_values_to_be_in_set",
    ),
    "an expectation on a misspelt column": written(
        ORDERS + "columns: {id: int, total: int}\n" + RULE + "not_be_null, column: totl}]\n",
        "'totl'",
        "expected: total",
    ),
    "the same key twice": written(
        ORDERS + "keys: [no]\n", "keys a second time", "correct the line"
    ),
    "no YAML": written(ORDERS + "columns: {a: int\n", "line ", "correct the line"),
    "an empty file": written("", "an empty file", "write `key: value`"),
    "a name that is taken": written(ORDERS, "orders", "rename the table", more=ORDERS),
    "a name that the lakehouse uses": written(
        ORDERS,
        "orders_history",
        "rename the table",
        more=ORDERS.replace("orders", "orders_history"),
    ),
    "the key of another program": written(
        ORDERS.replace("debezium", "rows").replace("shop}", "shop, csv: {separator: ';'}}"),
        "separator",
        "did you mean sep?",
    ),
    "a kind of file as the format": written(
        ORDERS.replace("debezium", "csv"), '"csv"', "write format: rows and file_format: csv"
    ),
    "a broker without its port": written(
        ORDERS.replace("path: shop", "kafka: {topic: t, bootstrap_servers: localhost}"),
        "source.kafka.bootstrap_servers",
        "add the port",
    ),
    "a point in a decimal's type": written(
        ORDERS + "columns: {total: decimal(10.2)}\n",
        "columns.total.type",
        "did you mean decimal(10,2)?",
    ),
    "a type with a comma in braces": written(
        ORDERS + "columns: {total: decimal(10,2), note: string}\n",
        "columns\n  found:    2) after a comma",
        "in quotes",
    ),
    "a key of an older interface": written(
        ORDERS + "sequence_column: at\n",
        "the unknown key sequence_column",
        "did you mean sequence_by?",
    ),
    "a text that does not end": written(
        ORDERS + 'comment: "a\n', "found:    unexpected end of stream", "correct the line"
    ),
    "a tab before a key": written(
        ORDERS + "\tcomment: a\n", "found:    character '\\t'", "correct the line"
    ),
    "columns as a list": written(
        ORDERS + "columns: [id, total]\n", '["id", "total"]', "write `key: value`"
    ),
    "a number as a name": written(
        ORDERS + "consistency_group: 5\n", "consistency_group", "write '5', in quotes"
    ),
    "a misspelt argument of an expectation": written(
        ORDERS + RULE + "be_between, column: id, minvalue: 0}]\n",
        "expectations[0].minvalue",
        "expected: min_value",
    ),
    # On the command line.
    "a misspelt table": Mistake("run --table order", "order", "did you mean orders?"),
    "a misspelt target": Mistake("run --target locl", "locl", "did you mean local?"),
    "a misspelt command": Mistake("stauts", "stauts", "status"),
    "a misspelt option": Mistake("run --tabel orders", "--tabel", "--table"),
    "no such layer": Mistake("run --layer copper", "copper", "bronze"),
    "an option without its value": Mistake("run --table", "--table", "lakehouse run --help"),
    "an option of a group without its value": Mistake(
        "dead-letters acknowledge --file", "--file", "lakehouse dead-letters acknowledge --help"
    ),
    "an interval in words": Mistake("run --interval soon", "soon", "correct it"),
    "an interval of one round": Mistake("run --interval 1m", "1m", "add --continuous"),
    "metrics of one round": Mistake("run --metrics 9000", "9000", "status --format prometheus"),
    "a question to no lake": Mistake("sql SELECT --root nowhere", "no lake in", "lakehouse run"),
    "no question": Mistake("sql", "QUERY", "--help"),
    "a query without quotes": Mistake("sql SELECT 1", "2 words", "put it in quotes"),
    "a key that is no JSON": Mistake(
        "explain orders --key id=7", "id=7", "write --key '{\"id\": …}'"
    ),
    "another table than the one to erase from": Mistake(
        "erase orders --key 7 --table people", "--table people beside orders", "leave one out"
    ),
    "dead letters of no choice": Mistake(
        "dead-letters acknowledge known", "no choice", "say which are meant"
    ),
    "an acknowledgement without a reason": Mistake(
        "dead-letters acknowledge --reason rule", "nothing", "say why"
    ),
    "an acknowledgement with an empty reason": Mistake(
        "dead-letters acknowledge  --reason rule", "nothing", "say why"
    ),
    "a reason for taking an acknowledgement back": Mistake(
        "dead-letters acknowledge why --undo --reason rule", "why", "leave the reason out"
    ),
    "a file to be read again that was never dropped": Mistake(
        "run --again conf/targets/local.yml", "conf/targets", "name a file that was dropped there"
    ),
    "a key of another column": Mistake(
        'explain orders --key {"no":7}', "no", "exactly the columns id"
    ),
    "a time in words": Mistake("sql SELECT --as-of yesterday", "yesterday", "2026-01-31T12:00:00Z"),
    "an extract without its day": Mistake("run --extract data", "--effective-date", "add it"),
    "a setting without a value": Mistake("run --set root", "--set", "KEY=VALUE"),
    "a sample that is not there": Mistake(
        "init x --from no.jsonl", "no.jsonl", "name another file"
    ),
    "a sample that is a folder": Mistake(
        "init --from conf", "a folder", "name a folder that has some"
    ),
    "a table that has a file": Mistake(
        "init orders --from no.jsonl", "orders.yml", "remove it first"
    ),
    "no such kind of database": Mistake("init --source sqlite:///a", "sqlite", "--from FILE"),
    "an explanation of two tables": Mistake(
        "explain orders --key 7 --table other", "--table other beside orders", "leave one out"
    ),
    "laws of two tables": Mistake(
        "verify orders --table other", "--table other beside orders", "leave one out"
    ),
    "a rebuild of two tables": Mistake(
        "rebuild orders --table other", "--table other beside orders", "leave one out"
    ),
    "memory that Java cannot read": Mistake(
        "validate --set driver_memory=2gb", "driver_memory", "correct it"
    ),
    "a database without a driver": Mistake("init --source oracle://h/d", "oracle", "install"),
    "a password that is not set": Mistake(
        "init --source postgresql://me:env:NO_SUCH@h/d", "env:NO_SUCH", "export NO_SUCH=…"
    ),
    "a database that does not run": Mistake(
        "init --source postgresql://me@127.0.0.1:1/d",
        "cannot be reached",
        "whether the server runs",
        code=3,
    ),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    for folder in ("tables", "targets"):
        (tmp_path / "conf" / folder).mkdir(parents=True)
    (tmp_path / "conf" / "targets" / "local.yml").write_text("kind: local\nroot: .\n")
    return tmp_path


def exit_code(arguments: Sequence[str]) -> object:
    try:
        run_command_line(app, arguments)
    except SystemExit as left:
        return left.code
    return 0


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_the_message_names_the_mistake_and_the_next_step(
    project: Path, mistake: Mistake, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "conf" / "tables" / "orders.yml").write_text(mistake.yaml)
    if mistake.more:
        (project / "conf" / "tables" / "zz_more.yml").write_text(mistake.more)
    assert exit_code(mistake.command.split(" ")) == mistake.code
    told = capsys.readouterr().err
    assert mistake.named in told
    assert mistake.step in told
    assert "Traceback" not in told
    assert "\n  do: " in told
    assert not (project / "lake").exists()


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_no_message_is_wider_than_a_terminal(
    project: Path,
    mistake: Mistake,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    (project / "conf" / "tables" / "orders.yml").write_text(mistake.yaml)
    if mistake.more:
        (project / "conf" / "tables" / "zz_more.yml").write_text(mistake.more)
    exit_code(mistake.command.split(" "))
    told = capsys.readouterr().err.splitlines()
    assert max(map(len, told)) <= 80
    for part in ("error: ", "  found: ", "  do: "):
        assert any(part in line for line in told), part


def test_a_folder_without_a_project_says_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code(["run"]) == 2
    told = capsys.readouterr().err
    assert "lakehouse init" in told
    assert told.count("found:") == 1


def test_a_project_without_tables_says_how_to_write_them(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["run"]) == 2
    assert "lakehouse init --from FILE" in capsys.readouterr().err


def test_no_command_shows_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code([]) == 2
    told = capsys.readouterr()
    assert "─ Begin ─" in told.out + told.err


def test_there_are_at_least_thirty() -> None:
    assert len(MISTAKES) >= 30
