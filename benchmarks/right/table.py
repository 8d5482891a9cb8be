"""Who is right: the same small events through tools as their own pages set them up.

Every rival is a process that answers with the rows it has; a cell says `right`, how many rows are
wrong, `refused` (an error: nothing was taken in silence) or `cannot` (no documented way).
"""

import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from benchmarks.result import KEPT
from benchmarks.right.rival import Row

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
KEPT_AS, PAGE = KEPT / "right.json", ROOT / "docs" / "comparison.md"
BLOCK = re.compile(r"(<!-- result right -->\n).*?(<!-- end -->)", re.DOTALL)
BEGIN = datetime(2026, 3, 1, tzinfo=timezone.utc)
OWN, OTHER = Path(sys.executable), ROOT / ".venv-right" / "bin" / "python"
JAR = ROOT / ".venv-right" / "spark-catalyst-tests.jar"


class Rival(NamedTuple):
    """A column: its head, its module and words for it, its page, its Python, a file it needs."""

    name: str
    module: str
    page: str
    python: Path = OWN
    needs: Path = OWN

    @property
    def is_there(self) -> bool:
        """Whether its environment was made."""
        return self.python.exists() and self.needs.exists()


_SPARK = "https://spark.apache.org/docs/latest/declarative-pipelines-programming-guide.html"
_DELTA = "https://docs.delta.io/delta-update/#write-change-data-into-a-delta-table"
_DELTA_RS = "https://delta-io.github.io/delta-rs/usage/merging-tables/"
RIVALS = [
    Rival("this project", "this_project", "index.md"),
    Rival("Delta MERGE", "delta_merge", _DELTA),
    Rival("Delta MERGE, tombstones", "delta_merge tombstones", _DELTA),
    Rival("polars, delta-rs", "polars_delta_rs", _DELTA_RS),
    Rival("polars, delta-rs, tombstones", "polars_delta_rs tombstones", _DELTA_RS),
    Rival("Spark AUTO CDC", "spark_auto_cdc", _SPARK, needs=JAR),
    Rival("dlt", "dlt_merge", "https://dlthub.com/docs/general-usage/merge-loading", OTHER),
    Rival(
        "DuckLake",
        "ducklake_merge",
        "https://ducklake.select/docs/stable/duckdb/usage/upserting",
        OTHER,
    ),
    Rival("pyiceberg", "pyiceberg_upsert", "https://py.iceberg.apache.org/api/#upsert", OTHER),
]


def main(made_on: str, root: Path, keep: bool) -> None:
    """Lets every rival that is there do the cases, and prints the table; `keep` writes it."""
    cases = read_cases()
    write_cases(cases, root)
    result: dict[str, Any] = {"made_on": made_on, "rivals": {}}
    for rival in RIVALS:
        if not rival.is_there:
            print(f"NOT MEASURED: {rival.name}; make its environment: benchmarks/right.sh")
            continue
        answer = ask(rival, root)
        told = {case["case"]: cell(case, answer["cells"][case["case"]]) for case in cases}
        result["rivals"][rival.name] = {"versions": answer["versions"], "cells": told}
        print(f"{rival.name}: {', '.join(f'{name}: {said}' for name, said in told.items())}")
    print(f"\n{section(result)}")
    if keep:
        KEPT_AS.write_text(json.dumps(result, indent=1) + "\n")
        PAGE.write_text(filled(PAGE.read_text(), result))


def read_cases() -> list[dict[str, Any]]:
    """The cases of `cases.yml`; times as text, in changes and in the rows that are right."""
    cases: list[dict[str, Any]] = yaml.safe_load((HERE / "cases.yml").read_text())
    for case in cases:
        case["table"] = re.sub(r"\W+", "_", case["case"]).lower()
        for row in [row for rows in case["batches"] for row in rows]:
            row["at"] = moment(row.get("at", row["lsn"]))
        bounds = ("valid_from", "valid_to") if case.get("history") else ()
        for row in case["right"]:
            row |= {bound: row[bound] and moment(row[bound]) for bound in bounds if bound in row}
    return cases


def moment(minutes: int) -> str:
    """So many minutes after the first commit."""
    return (BEGIN + timedelta(minutes=minutes)).isoformat()


def write_cases(cases: Sequence[Mapping[str, Any]], root: Path) -> None:
    """Writes `events.json`, and `cases.json` with the flattened rows, each batch also as a file.

    Of a truncate nothing is left to flatten, and Debezium sends none unless it is asked to.
    """
    root.mkdir(parents=True)
    flat, events = [], []
    for case in cases:
        told = {
            "name": case["case"],
            "table": case["table"],
            "columns": case["columns"],
            "added": case.get("added", {}),
            "history": case.get("history", False),
        }
        batches = [
            [{k: v for k, v in row.items() if k != "snapshot"} for row in rows if row["op"] != "t"]
            for rows in case["batches"]
        ]
        files = [root / f"{case['table']}-{at}.json" for at in range(len(batches))]
        for file, rows in zip(files, batches, strict=True):
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        names = [str(file) for file in files]
        flat.append(told | {"batches": batches, "files": names})
        source = case.get("source", {})
        events.append(told | {"batches": case["batches"], "files": [], "source": source})
    (root / "cases.json").write_text(json.dumps(flat))
    (root / "events.json").write_text(json.dumps(events))


def ask(rival: Rival, root: Path) -> dict[str, Any]:
    """The answer of a rival's process.

    Raises:
        RuntimeError: the process failed; the message ends with what it said.
    """
    module, *words = rival.module.split()
    folder = root / rival.module.replace(" ", "_")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    given = root / ("events.json" if module == "this_project" else "cases.json")
    command = [*map(str, (rival.python, "-m", f"benchmarks.right.{module}", given, folder)), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    (folder / "said.log").write_text(done.stdout + done.stderr)
    if done.returncode:
        raise RuntimeError(f"{rival.name}: {done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads((folder / "answer.json").read_text())
    return answer


def cell(case: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    """What the table says of an answer; behind a colon, why."""
    if "rows" not in answer:
        return next(f"{said}: {why}" for said, why in answer.items())
    wrong = wrong_rows(case, answer["rows"])
    return f"{wrong} wrong" if wrong else "right"


def wrong_rows(case: Mapping[str, Any], found: Sequence[Row]) -> int:
    """How many rows (of a history: versions) are missing, too many, or differ in any column."""
    keys = ["id", "valid_from"] if case.get("history") else ["id"]
    names = [*case["columns"], *case.get("added", {})]
    names += ["valid_from", "valid_to"] if case.get("history") else []
    wanted, shown = (
        Counter(json.dumps({name: row.get(name) for name in names}) for row in rows)
        for rows in (case["right"], found)
    )
    differing = (wanted - shown) + (shown - wanted)
    return len({tuple(json.loads(row)[key] for key in keys) for row in differing})


def section(result: Mapping[str, Any]) -> str:
    """The table and what belongs to it, as Markdown."""
    shown = [rival for rival in RIVALS if rival.name in result["rivals"]]
    missing = [rival.name for rival in RIVALS if rival not in shown]
    cells = [result["rivals"][rival.name]["cells"] for rival in shown]
    lines = ["| | " + " | ".join(rival.name for rival in shown) + " |"]
    lines.append("|---" * (len(shown) + 1) + "|")
    for name in cells[0]:
        lines.append(f"| {name} | " + " | ".join(_short(told[name]) for told in cells) + " |")
    sums = [str(sum(said == "right" for said in told.values())) for told in cells]
    lines.append(f"| **right, of {len(cells[0])}** | " + " | ".join(sums) + " |")
    if missing:
        lines += ["", f"**Not measured: {', '.join(missing)}** (`benchmarks/right.sh`)."]
    told = ", ".join(result["rivals"][rival.name]["versions"] for rival in shown)
    versions = dict.fromkeys(told.split(", "))
    pages = dict.fromkeys(rival.page for rival in shown if "//" in rival.page)
    links = [f"[{urlsplit(page).netloc}]({page})" for page in pages]
    made = f"`python -m benchmarks right` on {result['made_on']}, {', '.join(versions)}."
    set_up = textwrap.wrap(f"{made} Set up by {', '.join(links)}.", 150, break_on_hyphens=False)
    return "\n".join([*lines, "", *set_up, ""])


def filled(text: str, result: Mapping[str, Any]) -> str:
    """The page's text with the table in its place."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{section(result)}\n{found[2]}", text)


def _short(told: str) -> str:
    said = told.partition(":")[0]
    return f"**{said}**" if "wrong" in said else said
