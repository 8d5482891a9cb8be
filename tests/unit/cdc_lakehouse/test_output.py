"""What commands print fits a terminal of 80 columns; recorded with COLUMNS=80."""

import io
import json
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from cdc_lakehouse.cli.ask.queries import show_status, to_narrow_row
from cdc_lakehouse.cli.check.explain import print_records
from cdc_lakehouse.cli.check.verify import render_laws
from cdc_lakehouse.cli.commands import app
from cdc_lakehouse.cli.front import run_command_line
from cdc_lakehouse.cli.help import EXAMPLES, TASKS
from cdc_lakehouse.cli.work import run
from cdc_lakehouse.cli.work.run import show_sum
from cdc_lakehouse.cli.work.run_lines import column_news, run_lines
from cdc_lakehouse.drafts.topic_notes import describe_new
from cdc_lakehouse.terminal import console
from cdc_lakehouse.terminal.console import (
    add_colours,
    make_line_printer,
    say,
    show_error,
    show_grid,
    show_progress,
    wrap_line,
)
from cdc_lakehouse.terminal.verbosity import Level, current_level, set_level
from gold.status.trouble import PipelineStatus, list_serious, list_troubles, worst_first
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError
from lakehouse.run.gaps import Gap, with_loss
from lakehouse.run.ledger import Entry
from lakehouse.words import count_off
from silver.audit.explain import Explained
from silver.audit.verify import Law

COMMANDS = [name for names in TASKS.values() for name in names if name not in ("init", "plan")]
NOW = datetime(2026, 1, 31, tzinfo=timezone.utc)


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(console, "HEARTBEAT_SECONDS", 0.01)


def record(table: str, **more: Any) -> dict[str, Any]:
    quiet: dict[str, Any] = {
        "table": table, "rows": 1_234_567, "watermark": "2026-01-31T00:00:00Z",
        "lag_seconds": 400_000, "staleness_seconds": 0, "max_staleness_seconds": None,
        "stale": False, "pending_changes": 0, "waiting_transactions": 0, "dead_letters": {},
        "dead_letters_total": 0, "dead_letters_alert": False, "stale_keys": 0,
        "stale_keys_since": None, "drift": [], "gaps": [], "order": None,
        "key_parts": [], "lacked_keys": [], "left_out": [], "files": 2, "bytes": 3,
        "deletion_vectors": 0, "apply_p95_seconds": 1.5, "last_failure": None,
        "recommended_max_staleness_minutes": 8, "accounted": True, "applied_batch": 1,
        "last_run": None, "checked_at": "2026-01-31T00:00:00Z", "counts": {"records": 1},
        "verified_through": None, "verified_at": None, "verified_against": None,
    }  # fmt: skip
    return quiet | more


FAILING = record("orders", last_failure="the source truncated it, and on_truncate is fail " * 5)
STALE = record("people", stale=True, staleness_seconds=4_000, max_staleness_seconds=600)
REJECTED = record(
    "items", dead_letters={"no_key": 2}, dead_letters_total=2, dead_letters_alert=True
)
WARNED = record("a_table_with_a_very_long_name_that_alone_is_wide", warnings=["folder is empty"])
MIXED_UP = record("keys", key_parts=["tenant"])
FEWER = record("fewer", lacked_keys=["tenant"])
SHARDS = record("shards", key_parts=["source.db"])
RUN_BACK = record("moved", gaps=[{"kind": "positions"}])
RECORDS = [record("calm"), WARNED, REJECTED, STALE, FAILING]


def printed(capsys: pytest.CaptureFixture[str], most: int = 60) -> list[str]:
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= most
    return lines


def test_trouble_comes_first() -> None:
    assert [r["table"] for r in worst_first(RECORDS)] == [
        "orders", "people", "items", WARNED["table"], "calm",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "table",
    [FAILING, STALE, REJECTED, MIXED_UP, FEWER, SHARDS, RUN_BACK],
    ids=lambda r: str(r["table"]),
)
def test_every_trouble_names_what_to_do(table: dict[str, Any]) -> None:
    (found,) = list_troubles(table)
    assert "; do: " in found.text


def test_dead_letters_that_are_allowed_are_no_trouble_to_status_and_report() -> None:
    allowed = record("t", dead_letters={"no_key": 14}, dead_letters_total=14)
    assert to_narrow_row(allowed)["state"] == "ok"
    assert list_serious(allowed) == []
    assert [each.word for each in list_serious(REJECTED)] == ["dead letters"]
    assert to_narrow_row(REJECTED)["state"] == "dead letters"


def test_what_a_source_shows_of_its_order_and_keys_is_told() -> None:
    (keys,), (moved,) = list_troubles(MIXED_UP), list_troubles(RUN_BACK)
    (arrival,) = list_troubles(record("t", order="arrival"))
    assert "keys have parts that the table's keys have not: tenant" in keys.text
    assert "keys lack keys of the table" in list_troubles(FEWER)[0].text
    assert "several source tables, which source.db distinguishes" in list_troubles(SHARDS)[0].text
    first, second = list_troubles(record("t", left_out=["_rank", "s.zip"]))
    assert "begin with _ are left out: _rank" in first.text
    assert "struct has not are left out: s.zip" in second.text
    assert "positions run backwards" in moved.text
    assert arrival.word == "order: arrival"
    (change,) = list_troubles(record("t", order="change"))
    assert "positions that start over go unseen; do: use Debezium 1.6" in change.text
    assert list_troubles(record("t", order="source")) == []
    assert worst_first([WARNED, MIXED_UP])[0] == MIXED_UP


def test_the_status_has_six_columns_and_trouble_first(capsys: pytest.CaptureFixture[str]) -> None:
    show_status(PipelineStatus(RECORDS, [], []), as_json=False, wide=False)
    header, _, first, *rest = printed(capsys)
    assert header.split() == ["table", "state", "rows", "lag", "pending", "dead", "letters"]
    assert first.split()[:2] == ["orders", "FAILED"]
    assert any(line.startswith("people: a change has waited 1 h 6 min") for line in rest)


def test_every_state_of_a_table_is_read_at_eighty_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    more = STALE | {"key_parts": ["tenant"], "gaps": [{}], "stale_keys": 3, "order": "arrival"}
    show_status(PipelineStatus([more | {"last_failure": "no space"}], [], []), False, False)
    header, ruler, *rows = printed(capsys)
    begin, wide = header.index("state"), len(ruler.split()[1])
    state = " ".join(row[begin : begin + wide].strip() for row in rows[:2])
    assert state == "FAILED, GAPS, KEYS, STALE, stale keys, order: arrival"


def test_the_wide_status_is_a_block_per_table_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_status(PipelineStatus(RECORDS, [], []), as_json=False, wide=True)
    lines = printed(capsys)
    assert lines[0].startswith("── 1 ─")
    assert lines[1].split() == ["table", "orders"]


def test_many_tables_in_trouble_are_not_taller_than_sixty_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_status(
        PipelineStatus([FAILING | {"table": f"t{n}"} for n in range(200)], [], []),
        as_json=False,
        wide=False,
    )
    assert printed(capsys)[-2:] == [
        "… and 198 more: --format json shows all",
        "never verified: t0, t1, t2, t3, t4 and 195 more; do: `lakehouse verify`",
    ]


def test_a_table_in_trouble_is_not_hidden_behind_the_others_troubles(
    capsys: pytest.CaptureFixture[str],
) -> None:
    many = {"warnings": [f"warning {n}" for n in range(12)]}
    records = [FAILING | many | {"table": "a"}, FAILING | {"table": "b", "last_failure": "cause"}]
    show_status(PipelineStatus(records, [], []), as_json=False, wide=False)
    lines = printed(capsys)
    assert any("b: the last run failed: cause" in line for line in lines)
    assert "more: --format json shows all" in lines[-2]


def test_the_status_ends_with_how_far_tables_were_verified(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def proved(day: int) -> dict[str, Any]:
        at = {"verified_through": f"batch {day}", "verified_at": f"2026-03-0{day}T11:00:00Z"}
        return record(f"t{day}", verified_against="bronze", **at)

    records = [proved(2), proved(1), proved(3), record("new"), record("empty", counts={})]
    show_status(PipelineStatus(records, [], []), as_json=False, wide=False)
    assert printed(capsys)[-2:] == [
        "t1: equal to bronze through batch 1, found 2026-03-01 11:00Z, as 2 others since",
        "never verified: new; do: `lakehouse verify`",
    ]


@pytest.mark.parametrize("columns", [3, 29, 200])
def test_an_answer_is_neither_wider_nor_taller_than_it_may_be(
    columns: int, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"a_column_called_{n}" for n in range(columns)]
    show_grid(names, [["some longer text " * n for _ in names] for n in range(100)], "LIMIT")
    assert printed(capsys)[-1] == "… there is more: LIMIT"


def test_a_narrow_terminal_shows_whole_records(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    show_grid(list("abcde"), [["a long text"] * 4 + [f"row {n}, its end"] for n in range(20)])
    *records, more = printed(capsys)
    assert more == "… there is more"
    assert records[-6].startswith("── 7 ")
    assert records[-1] == "e  row 6, its end"


def test_the_rest_of_a_long_line_begins_under_its_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    problem = ConfigurationError("a.yml", "b", "x " * 50, "y", "type `lakehouse dead-letters list`")
    show_error(str(problem) + " or another command of the same group")
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "error: a.yml: b"
    assert told[1].startswith("  found:    x") and told[2].startswith("            x")
    assert told[-2].startswith("  do:       type `lakehouse dead-letters list` or another")
    assert told[-1].startswith("            ")


def entry(layer: str, table: str, **more: Any) -> Entry:
    given = {"run_id": "r", "layer": layer, "table": table, "started_at": NOW, "ended_at": NOW}
    return Entry.model_validate(given | more)


def test_a_run_prints_one_line_per_table() -> None:
    counts = {"records": 120, "updated": 96, "inserted": 3, "deleted": 2, "incomplete": 7}
    entries = [
        entry("bronze", "orders", counts={"records": 120}, duration_ms=200),
        entry("bronze", "people", duration_ms=100),
        entry("silver", "orders", counts=counts, duration_ms=900),
        entry("silver", "people"),
        entry("gold", "orders", duration_ms=100),
    ]
    assert run_lines(entries, 80) == [
        "orders  120 records  3 inserted  96 updated  2 deleted  1.2 s",
        "people  nothing new  0.1 s",
    ]


def test_columns_that_came_went_or_widened_are_told_by_the_run_that_saw_them() -> None:
    def change(kind: str, column: str, run: str = "r", **types: str) -> dict[str, Any]:
        none = {"from_type": None, "to_type": None, "at": "2026", "position": None}
        return none | {"kind": kind, "column": column, "run_id": run} | types

    changes = [
        change("add_column", "old", "earlier"),
        change("add_column", "remark"),
        change("drop_column", "note"),
        change("widen", "qty", from_type="int", to_type="bigint"),
    ]
    state = json.dumps({"schema_changes": changes})
    assert column_news([entry("silver", "orders", state=state), entry("bronze", "orders")]) == [
        "orders: new column remark, column note is gone, column qty was int, is bigint"
    ]


def test_keys_that_a_delta_file_does_not_carry_are_not_called_deleted() -> None:
    counts = {"records": 3, "I": 1, "D": 2, "X": 4}
    (line,) = run_lines([entry("silver", "a", counts=counts)], 80)
    assert line == "a  3 records  1 inserted  2 deleted  4 not supplied  0.0 s"


def test_a_full_snapshot_of_debezium_that_took_the_place_of_older_rows_is_named() -> None:
    counts = {"records": 3, "inserted": 3, "snapshots": 1, "key_changes": 1}
    (line,) = run_lines([entry("silver", "a", counts=counts)], 80)
    assert line == "a  3 records  3 inserted  1 full snapshot  0.0 s"


def test_a_rebuild_says_in_words_what_became_of_rows_and_records() -> None:
    counts = {"records": 29, "dead_letter:bad_sequence": 14, "I": 6, "U": 1, "D": 1, "N": 7}
    (line,) = run_lines([entry("silver", "t", counts=counts | {"without_change": 1})], None)
    assert line == (
        "t  29 records  6 inserted  1 updated  1 deleted  14 dead letters  7 unchanged"
        "  1 without change  0.0 s"
    )


def test_a_run_that_is_stopped_says_what_came_or_that_nothing_did(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_sum([entry("bronze", "orders"), entry("silver", "orders")])
    assert capsys.readouterr().out == "stopped; nothing was new\n"
    show_sum([entry("silver", "orders", counts={"records": 1, "inserted": 1})])
    assert capsys.readouterr().out == "stopped; in all:\norders  1 record  1 inserted  0.0 s\n"


def test_the_line_of_a_run_goes_on_below_and_loses_nothing() -> None:
    counts = {"records": 9} | {f"class_of_records_{n}": 100 + n for n in range(9)}
    lines = run_lines([entry("silver", "t" * 60, counts=counts)], 80)
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("t" * 31 + "…  9 records  ") and lines[-1].endswith("  0.0 s")
    assert all(f"{100 + n} class of records {n}" in "".join(lines) for n in range(9))
    assert lines[1].startswith(" " * 34 + "10")


def test_a_whole_line_of_news_goes_on_below_and_loses_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    news = describe_new([f"public.orders_of_{year}" for year in range(2020, 2028)])
    say(news, whole=True)
    assert len(lines := printed(capsys)) > 1
    assert " ".join(map(str.strip, lines)) == news
    say(news)
    assert printed(capsys) == [news[:79] + "…"]


def test_what_is_to_be_done_stands_whole_on_a_line_of_its_own() -> None:
    command = "`lakehouse dead-letters list --table a_table_of_a_long_name --reason bad_value`"
    lines = wrap_line(f"orders: {'many words ' * 9}; do: {command} and more")
    assert lines[-3:] == ["    do:", f"    {command}", "    and more"]
    assert wrap_line("short; do: `x y`") == ["short; do: `x y`"]


def test_colours_tell_verdicts_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "orders  FAILED  2 dead letters  ok"
    assert add_colours(line) == line
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    red, yellow, green = (f"\x1b[{code}m" for code in (31, 33, 32))
    end = "\x1b[0m"
    assert add_colours(line) == (
        f"orders  {red}FAILED{end}  2 {yellow}dead letters{end}  {green}ok{end}"
    )
    assert add_colours("tok ok.csv") == "tok ok.csv"
    monkeypatch.setenv("NO_COLOR", "1")
    assert add_colours(line) == line


def test_dead_letters_are_one_number_and_a_failure_is_named() -> None:
    counts = {"records": 3, "truncate": 1, "dead_letter:no_key": 1, "dead_letter:rule:x": 2}
    entries = [entry("silver", "a", counts=counts), entry("gold", "a", status="failed")]
    assert run_lines(entries, 80) == [
        "a  FAILED in gold  3 records  3 dead letters  1 truncate  0.0 s"
    ]


def test_progress_is_a_line_on_stderr_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with show_progress("silver") as tell:
        tell("orders")
        while "silver: orders (0 s)" not in capsys.readouterr().err:
            pass


def test_progress_tells_how_many_tables_are_done() -> None:
    assert count_off("gold orders", 2, 1_200) == "gold orders, 2 of 1,200"
    assert count_off("gold orders", 1, 1) == "gold orders"


def test_a_terminal_shows_for_how_long_a_step_has_lasted(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    live = Console(file=written, force_terminal=True, width=80)
    monkeypatch.setattr(console, "Console", lambda stderr: live)
    now = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    with show_progress("silver") as tell:
        tell("[orders]")
        now[0] = 75
        while "silver: [orders] (75 s)" not in written.getvalue():
            pass


def test_a_quiet_run_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    before = current_level()
    set_level(quiet=True, verbose=False)
    try:
        say("news")
        make_line_printer(Target(root="/lake"), news=True)("t: swapping it in")
        with show_progress("silver") as tell:
            tell("orders")
    finally:
        set_level(quiet=before is Level.QUIET, verbose=before is Level.VERBOSE)
    assert capsys.readouterr() == ("", "")


def run_help(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    run_command_line(app, [*arguments, "--help"])
    return "\n".join(line.rstrip() for line in printed(capsys, most=72))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_ends_with_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = run_help([name], capsys)
    assert "Examples:\n lakehouse " + name in told
    assert all(example in told for example in EXAMPLES[name])


@pytest.mark.parametrize("name", ["list", "replay"])
def test_a_command_of_a_group_has_examples_too(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"lakehouse dead-letters {name}" in run_help(["dead-letters", name], capsys)


def test_commands_are_listed_by_task(capsys: pytest.CaptureFixture[str]) -> None:
    told = run_help([], capsys)
    places = [told.index(f"─ {task} ─") for task in TASKS]
    assert places == sorted(places)
    assert "─ Commands ─" not in told


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    run_command_line(app, ["--version"])
    assert printed(capsys)[0].startswith("lakehouse 0.")


def test_the_shell_completes_names_of_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "orders.yml").touch()
    monkeypatch.setenv("_LAKEHOUSE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"lakehouse run --conf {tmp_path} --table o")
    monkeypatch.setenv("COMP_CWORD", "5")
    run_command_line(app, [])
    assert capsys.readouterr().out.split() == ["orders"]


def test_open_gaps_are_an_alarm_until_their_loss_is_accepted() -> None:
    (alarm,) = list_serious(RUN_BACK | {"on_data_loss": "fail"})
    assert "`lakehouse rebootstrap moved --source URL`" in alarm.text
    assert "source.on_data_loss: continue" in alarm.text
    accepted = RUN_BACK | {"on_data_loss": "continue"}
    assert list_serious(accepted) == []
    assert "accepted by source.on_data_loss" in list_troubles(accepted)[0].text


def test_a_failure_by_a_gap_says_that_what_came_is_applied() -> None:
    gap = Gap(table="t", feed="t", topic="s.t", partition=0, first=3, last=5)
    now = datetime.now(timezone.utc)
    done = Entry(run_id="r", layer="silver", table="t", started_at=now, ended_at=now)
    failed = with_loss(done, [gap])
    assert failed.status == "failed" and "what came is applied" in str(failed.message)


def test_a_round_that_is_broken_off_says_nothing_of_tables_without_news(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(timezone.utc)

    def work(_: object, __: object, layer: str, ___: object) -> list[Entry]:
        if layer == "silver":
            raise KeyboardInterrupt
        given = {"run_id": "r", "layer": "bronze", "started_at": now, "ended_at": now}
        counts = {"orders": {"records": 5}, "products": {"records": 0}}
        return [Entry.model_validate(given | {"table": t, "counts": c}) for t, c in counts.items()]

    monkeypatch.setattr(run, "try_layer", work)
    with pytest.raises(KeyboardInterrupt):
        run.one_round(cast(Any, None), [], ["bronze", "silver"])
    out = capsys.readouterr().out
    assert "orders" in out and "products" not in out


@pytest.mark.parametrize(("source_format", "lines"), [("snapshot", 3), ("debezium", 1)])
def test_verify_says_which_law_of_snapshot_files_is_not_checked(
    source_format: str, lines: int
) -> None:
    mode = {"mode": "full"} if source_format == "snapshot" else {}
    source = {"format": source_format, "path": "t", **mode}
    table = Table.model_validate({"table": "t", "keys": ["id"], "source": source})
    shown = "\n".join(render_laws(table, [Law("one open version per key", 1, 0, [])])).splitlines()
    assert len(shown) == lines and max(map(len, shown)) <= 80
    assert ("not checked" in " ".join(shown)) is (source_format == "snapshot")


def test_a_broken_law_fits_the_terminal_and_names_what_breaks_it() -> None:
    source = {"format": "rows", "path": "t"}
    table = Table.model_validate(
        {"table": "t", "keys": ["id"], "source": source, "sequence_by": "v"}
    )
    laws = [Law("a rebuild from bronze gives the same rows", 2, 2, ['{"id":3}', '{"id":4}'])]
    shown = "\n".join(render_laws(table, laws)).splitlines()
    assert max(map(len, shown)) <= 80 and shown[0].startswith("FAILED  a rebuild")
    assert [line.strip() for line in shown[1:]] == ["2 broken:", '{"id":3}', '{"id":4}']


@pytest.mark.parametrize("wide", [False, True])
def test_explained_records_fit_eighty_columns_of_a_pipe_and_are_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wide: bool
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    values = json.dumps({"name": "x" * 150 if wide else "x"})
    record = Explained("s/1.jsonl:0", "0A", "upsert", None, "applied", None, values)
    print_records([record, record._replace(operation="row", outcome="current")], Target(root="/"))
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80
    assert ("─" in told) is not wide
    assert "".join(told.split()).count("".join(values.split())) == 2
