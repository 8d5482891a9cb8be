import errno
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from cdc_lakehouse.cli import layer_main
from cdc_lakehouse.cli.ask.queries import to_utc
from cdc_lakehouse.cli.commands import app
from cdc_lakehouse.cli.front import describe_start, make_application, run_command_line
from cdc_lakehouse.cli.work.rounds import fail_at_the_end
from cdc_lakehouse.terminal.console import entry_line, show_grid
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError, ManyTablesFailed
from lakehouse.run.ledger import Entry

ROOT = Path(__file__).parents[3]
GOOD = "table: orders\nsource: {format: debezium, path: shop}\nkeys: [id]\n"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    for folder in ("tables", "targets"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tables" / "orders.yml").write_text(GOOD)
    (tmp_path / "targets" / "local.yml").write_text("kind: local\nroot: .\n")
    return tmp_path


@pytest.fixture(autouse=True)
def _keep_the_exception_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)


def exit_code(conf: Path, *arguments: str) -> object:
    try:
        run_command_line(app, [*arguments, "--conf", str(conf)])
    except SystemExit as left:
        return left.code
    return 0


def test_validate_names_every_table(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(conf, "validate") == 0
    assert capsys.readouterr().out.splitlines() == [
        "orders                   debezium  type 1  id",
        "ok: 1 table, target local",
    ]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (GOOD + "on_delet: flag\n", "on_delet"),
        ("table: t\nsource: {format: debezium, path: shop}\n", "keys"),
        (GOOD + "column_list: [id]\nexcept_column_list: [a]\n", "except_column_list"),
        (
            GOOD + "expectations: [{type: expect_column_values_to_be_nul, column: a}]\n",
            "expectations",
        ),
    ],
    ids=["misspelt key", "missing keys", "contradictory pair", "misspelt expectation"],
)
def test_what_is_wrong_in_a_file_is_one_block_and_code_2(
    conf: Path, capsys: pytest.CaptureFixture[str], text: str, key: str
) -> None:
    (conf / "tables" / "orders.yml").write_text(text)
    assert exit_code(conf, "run") == 2
    first, *block = capsys.readouterr().err.splitlines()
    assert first.startswith(f"error: {conf}/tables/orders.yml: {key}")
    assert [line.split(":")[0].strip() for line in block] == ["found", "expected", "do"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--layer", "copper"],
        ["run", "--interval", "soon"],
        ["run", "--tabel", "orders"],
        ["run", "--table", "order"],
        ["run", "--set", "root"],
        ["run", "--extract", "data/day1"],
        ["run", "--effective-date", "2019-06-18"],
        ["run", "--extract", "data/day1", "--effective-date", "2019-06-18"],
        ["run", "--target", "nowhere"],
        ["sql"],
        ["sql", "SELECT 1", "--as-of", "yesterday"],
        ["sql", "SELECT 1", "--format", "xml"],
        ["explain", "orders"],
        ["explain", "orders", "--key", "{id: 7}"],
        ["explain", "orders", "--key", '{"ident": 7}'],
        ["explain", "order", "--key", '{"id": 7}'],
        ["verify"],
        ["verify", "order"],
        ["dead-letters", "list", "--since", "yesterday"],
        ["dead-letters", "list", "--table", "orders", "--key", "7"],
        ["dead-letters", "list", "--limit", "0"],
        ["dead-letters", "burn"],
        ["paint"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_code_2_before_spark(
    conf: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: Sequence[str],
) -> None:
    monkeypatch.chdir(conf.parent)  # where no lake is
    assert exit_code(conf, *arguments) == 2
    assert "rror: " in capsys.readouterr().err


def test_a_configuration_error_is_told_before_spark_is_even_imported(conf: Path) -> None:
    (conf / "tables" / "orders.yml").write_text(GOOD + "kes: [id]\n")
    code = (
        "import atexit, sys; from cdc_lakehouse.cli import main\n"
        "atexit.register(lambda: print('pyspark' in sys.modules))\n"
        f"sys.argv = ['lakehouse', 'run', '--conf', {str(conf)!r}]\nmain()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (2, "False\n")
    assert "Traceback" not in ran.stderr


def test_quality_without_great_expectations_says_what_to_install(
    conf: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_lakehouse.cli.check.quality.find_spec", lambda _: None)
    assert exit_code(conf, "quality") == 2
    assert "pip install 'cdc-lakehouse[quality]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[]", "expectations"),
        ("{}", "expectations"),
        ("[{type: expect_colum_values_to_be_null, column: a}]", "expectations[0].type"),
        ("[{column: a}]", "expectations[0].type"),
        ("{table: order, expectations: [{type: expect_column_to_exist, column: a}]}", "--table"),
        ("[{type: expect_column_to_exist, column: a}]\n: ", "line 2"),
    ],
)
def test_wrong_rules_to_try_are_code_2_before_spark(
    conf: Path, capsys: pytest.CaptureFixture[str], text: str, found: str
) -> None:
    (conf / "rules.yml").write_text(text)
    assert exit_code(conf, "quality", "--try", str(conf / "rules.yml")) == 2
    assert f": {found}\n" in capsys.readouterr().err


def test_rules_to_try_need_one_table(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (conf / "tables" / "more.yml").write_text(GOOD.replace("orders", "more"))
    (conf / "rules.yml").write_text("[{type: expect_column_to_exist, column: a}]")
    assert exit_code(conf, "quality", "--try", str(conf / "rules.yml")) == 2
    assert "name it with --table" in capsys.readouterr().err


def test_debug_shows_where_an_error_came_from(conf: Path) -> None:
    with pytest.raises(ConfigurationError):
        run_command_line(app, ["run", "--interval", "soon", "--debug", "--conf", str(conf)])


def test_a_layer_has_an_entry_point_of_its_own(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        layer_main("bronze", ["--conf", str(conf), "--table", "order"])
    assert left.value.code == 2
    assert "did you mean orders?" in capsys.readouterr().err


def test_a_layers_entry_point_takes_no_other_layer(conf: Path) -> None:
    with pytest.raises(SystemExit) as left:
        layer_main("bronze", ["--conf", str(conf), "--layer", "gold"])
    assert left.value.code == 2


def test_a_databricks_target_without_databricks_is_code_2(
    conf: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another test of the same process may have a session, which would be taken for a runtime's.
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    target = "kind: databricks\ncatalog: c\nlanding: /Volumes/l\ncheckpoints: /Volumes/c\n"
    (conf / "targets" / "dev.yml").write_text(target)
    assert exit_code(conf, "status", "--target", "dev") == 2
    assert "neither a Databricks runtime nor databricks-connect" in capsys.readouterr().err


def entry(table: str, status: str, **more: object) -> Entry:
    now = "2026-01-01T00:00:00Z"
    given = {"run_id": "r", "layer": "silver", "table": table, "status": status}
    return Entry.model_validate(given | {"started_at": now, "ended_at": now} | more)


def test_every_failed_table_is_named_at_the_end() -> None:
    entries = [entry("a", "failed", message="x"), entry("b", "ok"), entry("c", "failed")]
    with pytest.raises(ManyTablesFailed, match=r"2 failed.*\n.*silver a: x\n.*silver c: no reason"):
        fail_at_the_end(entries)


def test_a_summary_line_counts_what_happened() -> None:
    counts = {"inserted": 1_200, "deleted": 0, "late": 3}
    line = entry_line(entry("a", "ok", counts=counts, duration_ms=1_500))
    assert line == "silver  a                        ok         1.5 s  1,200 inserted, 3 late"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31", "2026-01-31 00:00:00.000000"),
        ("2026-01-31T12:00:00.5Z", "2026-01-31 12:00:00.500000"),
        ("2026-01-31 12:00:00+02:00", "2026-01-31 10:00:00.000000"),
    ],
)
def test_a_time_on_the_command_line_is_read_in_utc(text: str, expected: str) -> None:
    assert to_utc(text) == expected


def test_init_writes_a_table_that_validates(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = conf / "clients.jsonl"
    sample.write_text(json.dumps({"_CHANGE_TYPE": "UPSERT", "id": 1, "name": "x"}))
    assert exit_code(conf, "init", "clients", "--from", str(sample)) == 0
    assert exit_code(conf, "validate") == 0
    assert "clients                  bigquery  type 1  id" in capsys.readouterr().out


def test_init_leaves_a_file_that_is_there_alone(conf: Path) -> None:
    assert exit_code(conf, "init", "orders", "--from", str(conf)) == 2
    assert (conf / "tables" / "orders.yml").read_text() == GOOD


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (ArithmeticError("a\nb"), "error: ArithmeticError: a\n  do: --debug shows where\n"),
        (OSError(errno.ENOSPC, "No space left on device"), "do: the disk is full: free some"),
        (OSError(errno.EROFS, "Read-only file system"), "do: the lake cannot be written: make"),
    ],
)
def test_what_nobody_foresaw_is_one_block_without_a_traceback(
    failure: Exception, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = make_application("Broken.")

    @broken.command()
    def fail() -> None:
        raise failure

    with pytest.raises(type(failure)) as raised:
        run_command_line(broken, [])
    sys.excepthook(raised.type, raised.value, raised.tb)
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 2


def test_a_grid_shows_everything_when_it_goes_into_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    show_grid(["a", "[b]"], [["x" * 300, None], ["[red]", "y"]])
    header, _, first, second = [
        line for line in capsys.readouterr().out.splitlines() if line.strip()
    ]
    assert header.split() == ["a", "[b]"]
    assert (first.split(), second.split()) == (["x" * 300], ["[red]", "y"])


def test_a_question_that_waits_for_spark_names_what_keeps_one_ready() -> None:
    local, remote = Target(root="/tmp/x"), Target(root="/tmp/x", kind="connect", remote="sc://x")
    assert describe_start(local, True) == "starting Spark; `lakehouse serve` keeps one ready"
    assert {describe_start(local, False), describe_start(remote, True)} == {"starting Spark"}
