"""What must hold after each act, whatever the acts were."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyarrow.parquet import read_table

from tests.spark.machine.group import MEMBERS, SHOP, Committed, Group
from tests.spark.machine.model import Model, in_order
from tests.spark.machine.source import moment
from tests.spark.machine.world import Answer, Played, World

WIDTH = 80
INNARDS = re.compile(r"Traceback|Py4J|py4j|org\.apache|java\.lang|io\.delta|pyspark\.|Exception\b")
OWN_WAYS = re.compile(r"\S{60,}|^ *`[^`]+`$")
"""What may be wider: a path of one's own, and a command, which stays whole to be pasted."""
ROWS = "SELECT '{table}' AS name, '{what}' AS what, to_json(struct(*)) AS row FROM {source}"
COUNT = "SELECT '{table}' AS name, 'bronze' AS what, CAST(count(*) AS STRING) AS row FROM {source}"
OF_HISTORY = ("sequence_from", "sequence_to", "is_current")
HIDDEN = "more: --format json shows all"
Shown = dict[tuple[str, str], list[Any]]


class Fault(AssertionError):
    """A law that does not hold: which, how that was seen, and of which table."""

    def __init__(self, law: str, told: object, of: str) -> None:
        super().__init__(f"{law}{f' ({of})' if of else ''}\n{told}")
        self.law, self.of = law, of


def hold(law: str, holds: bool, told: object, of: str = "") -> None:
    """Says which law is broken, and for which table if it is one's.

    Raises:
        Fault: it does not hold.
    """
    if not holds:
        raise Fault(law, told, of)


def check_words(answer: Answer) -> None:
    """What a command says fits the terminal, and names nothing of Spark's or Python's own."""
    told = f"{answer.out}\n{answer.err}"
    hold("no innards", not INNARDS.search(told), answer)
    if "json" not in answer.words:
        shown = answer.out.splitlines() + answer.err.partition("error: ")[0].splitlines()
        wide = [line for line in shown if len(line) > WIDTH]
        hold("80 columns", not [line for line in wide if not OWN_WAYS.search(line)], answer)
    if answer.code:
        hold("a failure says why", bool(answer.err.strip()), answer)


def check_lake(world: World, at_times: bool = False) -> None:
    """Gold and bronze are those of the models, also `at_times` of the sources."""
    tables = [table for table in world.tables if table.model.is_shown]
    group = world.group if world.group and world.group.shown else None
    parts = [part for table in tables for part in _list_parts(table, at_times)]
    parts += _list_group_parts(group, at_times) if group else []
    if not parts:
        return
    shown = read_gold(world, parts)
    for table in tables:
        _check_table(table, shown, at_times)
    if group:
        of_time = {"current": group.shown[-1]}
        of_time |= {each.time: each for each in _list_group_times(group, at_times)}
        for what, committed in of_time.items():
            seen = {name: shown.get((name, what), []) for name in committed.rows}
            wanted = {name: in_order(rows) for name, rows in committed.rows.items()}
            hold("a group shows whole transactions", seen == wanted, (what, seen, wanted), SHOP)


def _list_parts(table: Played, at_times: bool) -> Iterator[str]:
    """The queries of what is there of a table."""
    gold = f"gold.{table.name}"
    yield COUNT.format(table=table.name, source=f"bronze.{table.name}")
    yield ROWS.format(table=table.name, what="current", source=gold)
    if table.model.built is not None and table.model.built.history:
        yield ROWS.format(table=table.name, what="history", source=f"{gold}_history")
        for at in list_times(table) if at_times else ():
            source = f"{gold}_as_of(TIMESTAMP '{moment(at):%F %T}')"
            yield ROWS.format(table=table.name, what=at, source=source)


def _list_group_parts(group: Group, at_times: bool) -> list[str]:
    sources = {"current": "gold.{}"}
    for each in _list_group_times(group, at_times):
        sources[each.time] = f"gold.{{}}_as_of(TIMESTAMP '{each.time}')"
    return [
        ROWS.format(table=name, what=what, source=source.format(name))
        for what, source in sources.items()
        for name in MEMBERS
    ]


def _list_group_times(group: Group, at_times: bool) -> list[Committed]:
    """The first, the middle and the last transaction, of a group with a history."""
    shown = group.shown if at_times and group.history else []
    return [shown[at] for at in sorted({0, len(shown) // 2, len(shown) - 1})] if shown else []


def _check_table(table: Played, shown: Shown, at_times: bool) -> None:
    model, name = table.model, table.name
    counts = [int(count) for count in shown.get((name, "bronze"), [])]
    told = counts, len(model.bronze)
    hold("bronze has every record", counts == [len(model.bronze)], told, name)
    current, history = shown.get((name, "current"), []), shown.get((name, "history"), [])
    told_rows = _beside(model, current, history)
    hold("gold is the oracle's", current == model.current(), told_rows, name)
    if model.built is None or not model.built.history:
        return
    hold("history is the oracle's", history == model.history(), told_rows, name)
    for at in list_times(table) if at_times else ():
        rows, wanted = shown.get((name, str(at)), []), model.as_of(at)
        hold("gold as of a time is the oracle's", rows == wanted, (at, rows, wanted), name)


def _beside(model: Model, current: list[Any], history: list[Any]) -> str:
    lines = []
    for what, got, wanted in (
        ("current", current, model.current()),
        ("history", history, model.history()),
    ):
        lines += [f"{what} lacks {row}" for row in wanted if row not in got]
        lines += [f"{what} has   {row}" for row in got if row not in wanted]
    return "\n".join(lines)


def read_gold(world: World, parts: list[str]) -> Shown:
    """What gold and bronze have, by one query."""
    answer = world.type("sql", " UNION ALL ".join(parts), "--format", "json")
    check_words(answer)
    hold("gold can be read", answer.code == 0, answer)
    found: Shown = {}
    for line in answer.out.splitlines():
        one = json.loads(line)
        row = json.loads(one["row"])
        for name in OF_HISTORY if one["what"] == "history" else ():
            row.pop(name, None)
        found.setdefault((one["name"], one["what"]), []).append(row)
    return {of: rows if of[1] == "bronze" else in_order(rows) for of, rows in found.items()}


def list_times(table: Played) -> list[int]:
    """Three times of the source."""
    return sorted({1, table.source.at // 2, table.source.at})


def read_plainly(folder: Path, kind: str = "delta") -> list[dict[str, Any]]:
    """The rows of a folder of Delta or Parquet files, nulls left out, without Spark."""
    table = read_table(folder) if kind == "parquet" else DeltaTable(folder).to_pyarrow_table()
    rows = table.to_pylist()
    return in_order({c: v for c, v in row.items() if v is not None} for row in rows)


def check_status(world: World) -> None:
    """The status says ok exactly if nothing is wrong, and its numbers are the models'."""
    tables = [table for table in world.tables if table.model.built and table.model.conf.present]
    if not tables and not (world.group and world.group.read):
        return
    answer = world.type("status", "--format", "json")
    hold("status answers", answer.code == 0, answer)
    records = {record["table"]: record for record in map(json.loads, answer.out.splitlines())}
    shown = world.type("status")
    check_words(shown)
    for name, record in records.items():
        hold("outcomes add up", record["accounted"], record["counts"], name)
    for table in tables:
        if table.model.is_shown:
            _check_record(world, table, records[table.name])
            _check_state(world, table, shown)


def _check_record(world: World, table: Played, record: dict[str, Any]) -> None:
    model, name = table.model, table.name
    dead = [one for one in model.dead if not one.acknowledged]
    known = len(model.dead) - len(dead)
    counted = record["dead_letters_total"], record["dead_letters_acknowledged"]
    told = counted, len(dead), known
    hold("dead letters are counted", counted == (len(dead), known), told, name)
    if not record["pending_changes"]:
        rows = model.current()
        of_outcome = len(model.outcome().current)
        hold("status counts rows", record["rows"] == of_outcome, (record, of_outcome), name)
        folder = world.root / "lake" / "gold" / name
        public = read_plainly(folder) if model.view.published else rows
        hold("the published table is the oracle's", public == rows, (public, rows), name)


def _check_state(world: World, table: Played, shown: Answer) -> None:
    """The state is ok exactly if nothing is wrong; with stale keys and hints it may be another.

    The status looks at files and YAML when a command is done, not when they are edited.
    """
    model, dead = table.model, any(not one.acknowledged for one in table.model.dead)
    is_ok = any(line.split()[:2] == [table.name, "ok"] for line in shown.out.splitlines())
    carried = {c for one in model.bronze if one.sent.event for c, _ in one.sent.event.values}
    hinted = model.conf.declared or model.view.declared or not {"name", "qty"} <= carried
    edited = model.waiting or model.changed or not world.list_landed(table)
    may_differ = bool(model.dead or hinted or edited)
    hold("status says ok if nothing is wrong", is_ok or may_differ, shown, table.name)
    if dead:
        words = f"lakehouse dead-letters list --table {table.name}"
        named = not is_ok and says(world, table.name, shown, words)
        hold("status names what is wrong", named, shown, table.name)


def says(world: World, table: str, shown: Answer, words: str) -> bool:
    """Whether the status has these words, if need be when the table alone is asked for."""
    if HIDDEN in shown.out and words not in " ".join(shown.out.split()):
        shown = world.type("status", "--table", table)
    return words in " ".join(shown.out.split())


def check_laws(world: World) -> None:
    """`verify` finds nothing."""
    names = [table.name for table in world.tables if table.model.is_shown]
    names += [*MEMBERS] if world.group and world.group.shown else []
    if names:
        chosen = [word for name in names for word in ("--table", name)]
        answer = world.type("verify", "--all", *chosen)
        check_words(answer)
        hold("verify agrees", answer.code == 0, answer)


def check_refusal(world: World) -> None:
    """`verify` judges no table whose YAML is not that of its rows, and says what to do."""
    tables = [table for table in world.tables if table.model.built and table.model.conf.present]
    for table in (table for table in tables if not table.model.is_at_rest):
        answer = world.type("verify", table.name)
        told = f"lakehouse rebuild {table.name}" in answer.told
        hold("verify refuses another YAML", told, answer, table.name)
        hold("verify refuses another YAML", answer.code == 1, answer, table.name)
