"""What must hold after each act, whatever the acts were."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyarrow.parquet import read_table

from tests.spark.machine.model import in_order
from tests.spark.machine.source import moment
from tests.spark.machine.world import Answer, World

WIDTH = 80
INNARDS = re.compile(r"Traceback|Py4J|py4j|org\.apache|java\.lang|io\.delta|pyspark\.|Exception\b")
OWN_WAYS = re.compile(r"\S{60,}")
AS_OF = "SELECT '{at}' AS what, to_json(struct(*)) AS row FROM gold.t_as_of(TIMESTAMP '{time}')"
SHOWN = {
    "current": "SELECT 'current' AS what, to_json(struct(*)) AS row FROM gold.t",
    "history": "SELECT 'history' AS what, to_json(struct(*)) AS row FROM gold.t_history",
    "bronze": "SELECT 'bronze' AS what, CAST(count(*) AS STRING) AS row FROM bronze.t",
}
OF_HISTORY = ("sequence_from", "sequence_to", "is_current")


class Fault(AssertionError):
    """A law that does not hold: which, and how that was seen."""

    def __init__(self, law: str, told: object) -> None:
        super().__init__(f"{law}\n{told}")
        self.law = law


def hold(law: str, holds: bool, told: object) -> None:
    """Says which law is broken.

    Raises:
        Fault: it does not hold.
    """
    if not holds:
        raise Fault(law, told)


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
    """Gold and bronze are those of the model, also `at_times` of the source."""
    model = world.model
    if model.built is None or not model.conf.present or model.refuses:
        return
    times = list_times(world) if at_times and model.built.history else []
    shown = read_gold(world, times)
    bronze = [int(count) for count in shown["bronze"]]
    hold("bronze has every record", bronze == [len(model.bronze)], (bronze, len(model.bronze)))
    hold("gold is the oracle's", shown["current"] == model.current(), _beside(world, shown))
    if model.built.history:
        same = shown["history"] == model.history()
        hold("history is the oracle's", same, _beside(world, shown))
        for at in times:
            told = at, shown[str(at)], model.as_of(at)
            hold("gold as of a time is the oracle's", shown[str(at)] == model.as_of(at), told)


def _beside(world: World, shown: dict[str, Any]) -> str:
    model = world.model
    wanted = {"current": model.current(), "history": model.history()}
    lines = []
    for what, rows in wanted.items():
        got = shown.get(what, [])
        lines += [f"{what} lacks {row}" for row in rows if row not in got]
        lines += [f"{what} has   {row}" for row in got if row not in rows]
    return "\n".join(lines)


def read_gold(world: World, times: list[int]) -> dict[str, list[Any]]:
    """What gold and bronze have, by one query."""
    history = world.model.built is not None and world.model.built.history
    parts = [sql for what, sql in SHOWN.items() if what != "history" or history]
    parts += [AS_OF.format(at=at, time=f"{moment(at):%F %T}") for at in times]
    answer = world.type("sql", " UNION ALL ".join(parts), "--format", "json")
    check_words(answer)
    hold("gold can be read", answer.code == 0, answer)
    found = {what: list[Any]() for what in ("current", "history", "bronze", *map(str, times))}
    for line in answer.out.splitlines():
        one = json.loads(line)
        found[one["what"]].append(json.loads(one["row"]))
    for row in found["history"]:
        for name in OF_HISTORY:
            row.pop(name, None)
    return {what: rows if what == "bronze" else in_order(rows) for what, rows in found.items()}


def list_times(world: World) -> list[int]:
    """Three times of the source."""
    return sorted({1, world.source.at // 2, world.source.at})


def read_published(world: World) -> list[dict[str, Any]]:
    """What other engines read of gold, without Spark."""
    return read_plainly(world.root / "lake" / "gold" / "t")


def read_plainly(folder: Path, kind: str = "delta") -> list[dict[str, Any]]:
    """The rows of a folder of Delta or Parquet files, nulls left out."""
    table = read_table(folder) if kind == "parquet" else DeltaTable(folder).to_pyarrow_table()
    rows = table.to_pylist()
    return in_order({c: v for c, v in row.items() if v is not None} for row in rows)


def check_status(world: World) -> None:
    """The status says ok exactly if nothing is wrong, and its numbers are the model's."""
    model = world.model
    if model.built is None or not model.conf.present:
        return
    answer = world.type("status", "--format", "json")
    hold("status answers", answer.code == 0, answer)
    record = json.loads(answer.out.splitlines()[0])
    shown = world.type("status")
    check_words(shown)
    if model.refuses:
        hold("status names a refusal", "lakehouse rebuild t" in " ".join(shown.out.split()), shown)
        return
    dead = [one for one in model.dead if not one.acknowledged]
    known = len(model.dead) - len(dead)
    counted = record["dead_letters_total"], record["dead_letters_acknowledged"]
    hold("dead letters are counted", counted == (len(dead), known), (counted, len(dead), known))
    hold("outcomes add up", record["accounted"], record["counts"])
    if not record["pending_changes"]:
        hold("status counts rows", record["rows"] == len(model.outcome().current), shown)
        told = read_published(world) if model.view.published else []
        same = not model.view.published or told == model.current()
        hold("the published table is the oracle's", same, (told, model.current()))
    check_state(world, shown)


def check_state(world: World, shown: Answer) -> None:
    """The state is ok exactly if nothing is wrong; with stale keys and hints it may be another."""
    model, wrong = world.model, list(find_troubles(world))
    is_ok = any(line.split()[:2] == ["t", "ok"] for line in shown.out.splitlines())
    told = f"{shown}\nwrong: {wrong}"
    landed = any((world.root / "landing" / "t").iterdir())
    carried = {c for one in model.bronze if one.sent.event for c, _ in one.sent.event.values}
    hinted = model.conf.declared or not landed or not {"name", "qty"} <= carried
    may_differ = bool(wrong or model.dead) or hinted
    hold("status says ok if nothing is wrong", is_ok or may_differ, told)
    hold("status names what is wrong", not (wrong and is_ok), told)
    for word in wrong:
        hold("status names what is wrong", word in " ".join(shown.out.split()), told)


def find_troubles(world: World) -> Iterator[str]:
    """The words that the status must have."""
    model = world.model
    if any(not one.acknowledged for one in model.dead):
        yield "lakehouse dead-letters list --table t"
    if model.changed:
        yield "overwritten after it was read"


def check_laws(world: World) -> None:
    """`verify` finds nothing."""
    model = world.model
    if model.built is None or not model.conf.present or model.refuses:
        return
    answer = world.type("verify", "t", "--all")
    check_words(answer)
    hold("verify agrees", answer.code == 0, answer)


def check_refusal(world: World) -> None:
    """`verify` judges no table whose YAML is not that of its rows, and says what to do."""
    built, conf = world.model.built, world.model.conf
    if (
        built is not None
        and conf.present
        and (world.model.refuses or conf.renamed != built.renamed)
    ):
        answer = world.type("verify", "t")
        told = " ".join(answer.err.split())
        hold("verify refuses another YAML", "lakehouse rebuild t" in told, answer)
        hold("verify refuses another YAML", answer.code == 1, answer)
