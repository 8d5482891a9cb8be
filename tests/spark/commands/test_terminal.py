"""A recording of commands on a terminal of 80 columns: nothing wider, nothing taller than 60."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.helpers.captures import CONFIGURATIONS, lines

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
BROKEN = '{"topic": "shop.shop.orders", "value": {"op": "c", "after": {"id": "no number"}}}'


def told(conf: Path, root: Path, *arguments: str) -> list[str]:
    """What a command prints with 80 columns, on both streams."""
    command = [sys.executable, "-m", "lakehouse", *arguments]
    ran = subprocess.run(
        [*command, "--conf", str(conf), "--root", str(root)], capture_output=True, text=True,
        check=False, env=os.environ | {"COLUMNS": "80", "LINES": "24", "PYTHONPATH": str(ROOT)},
        cwd=root,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def fits(printed: Sequence[str]) -> None:
    assert max(map(len, printed)) <= 80, max(printed, key=len)
    assert len(printed) <= 60


def test_the_demo_tells_its_story(tmp_path: Path) -> None:
    printed = told(ROOT / "conf", tmp_path, "demo")
    fits([line for line in printed if str(tmp_path) not in line])
    steps = [line for line in printed if line.startswith("[")]
    assert [step[:5] for step in steps] == ["[1/5]", "[2/5]", "[3/5]", "[4/5]", "[5/5]"]
    story = printed[printed.index(steps[-1]) + 1 :]
    assert len(story) <= 40
    for part in ("ARRIVED", "CAME OUT", "EXPLAINED", "LATE", "DELETED", "REPORT", "TRY"):
        assert any(line.startswith(part) for line in story)
    assert (tmp_path / "lake" / "_report" / "report.html").is_file()


def test_status_dead_letters_and_the_widest_table_fit(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    (conf / "tables").mkdir(parents=True)
    (conf / "targets").mkdir()
    (conf / "targets" / "local.yml").write_text("kind: local\nroot: .\nmaster: local[2]\n")
    for table in ("orders", "kitchen_sink"):
        file = next(c / "tables" / f"{table}.yml" for c in CONFIGURATIONS
                    if (c / "tables" / f"{table}.yml").exists())  # fmt: skip
        (conf / "tables" / f"{table}.yml").write_text(file.read_text())
    landing = tmp_path / "landing" / "shop"
    landing.mkdir(parents=True)
    (landing / "a.jsonl").write_text("\n".join([*lines("small"), BROKEN, ""]))
    run = told(conf, tmp_path, "run")
    fits(run)
    assert [line.split()[0] for line in run] == ["kitchen_sink", "orders", "feed_shop:"]
    status = told(conf, tmp_path, "status")
    fits(status)
    assert status[2].split()[:2] == ["orders", "dead"]
    fits(told(conf, tmp_path, "status", "--wide"))
    letters = told(conf, tmp_path, "dead-letters", "list")
    fits(letters)
    assert letters[-1] == "1 dead letter"
    fits(told(conf, tmp_path, "verify", "orders"))
    unknown = told(conf, tmp_path, "explain", "orders", "--key", '{"id": 999999}')
    assert unknown == ["no record of this key has arrived, and there is no row"]
    widest = told(conf, tmp_path, "sql", "SELECT * FROM gold.kitchen_sink")
    fits(widest)
    assert widest[0].startswith("── 1 ─")
    assert widest[-1].startswith("… there is more")
