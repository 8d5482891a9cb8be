"""A run that ended with everything done lets the next one answer at once; no other run does."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.cli.work.run import Asked, run_layers
from lakehouse.config.loading import load_target
from lakehouse.config.target import LAYERS
from lakehouse.errors import ManyTablesFailed
from lakehouse.storage.settled import read_mark

IDLE = "nothing new: 1 table, all up to date\n"
HEAVY = ("pyspark", "pyarrow", "pandas", "great_expectations")
COMMAND = f"""
import sys
from cdc_lakehouse.cli import main
main()
print([name for name in {HEAVY} if name in sys.modules])
"""


class IdleLake:
    """A configuration with one table in a folder, run by the command's own function."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.root = root
        table = {"table": "t", "source": {"format": "rows", "path": "t"}, "keys": ["id"]}
        for name, document in {
            "targets/local": {"kind": "local", "root": "."},
            "tables/t": table | {"sequence_by": "v"} | options,
        }.items():
            file = root / "conf" / f"{name}.yml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(yaml.safe_dump(document))

    def drop(self, name: str, *rows: dict[str, int]) -> Path:
        file = self.root / "landing" / "t" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return file

    def run(self, **asked: Any) -> None:
        chosen = Chosen(self.root / "conf", root=str(self.root))
        run_layers(chosen, Asked(**({"layers": LAYERS} | asked)))

    @property
    def is_settled(self) -> bool:
        return read_mark(load_target(self.root / "conf", "local", str(self.root))) is not None


@pytest.mark.slow
def test_a_settled_lake_answers_at_once_until_something_comes(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = IdleLake(tmp_path)
    lake.drop("1.jsonl", {"id": 1, "v": 1})
    lake.run()
    assert "1 inserted" in capsys.readouterr().out
    options = ["--conf", str(tmp_path / "conf"), "--root", str(tmp_path)]
    ran = subprocess.run(
        [sys.executable, "-c", COMMAND, "run", *options],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout == f"{IDLE}[]\n"
    lake.drop("2.jsonl", {"id": 2, "v": 1})
    lake.run()
    assert "1 inserted" in capsys.readouterr().out
    lake.run()
    assert capsys.readouterr().out == IDLE
    (tmp_path / "lake" / "gold" / "_views.json").unlink()
    lake.run()
    assert "nothing new  " in capsys.readouterr().out
    assert (tmp_path / "lake" / "gold" / "_views.json").exists()
    lake.run(layers=["silver"])
    assert "nothing new  " in capsys.readouterr().out
    assert not lake.is_settled


@pytest.mark.slow
def test_a_run_that_failed_leaves_no_mark(spark: SparkSession, tmp_path: Path) -> None:
    lake = IdleLake(tmp_path)
    whole = gzip.compress(b'{"id": 1, "v": 1}\n' * 1000)
    file = lake.drop("1.jsonl.gz")
    file.write_bytes(whole[: len(whole) // 2])
    for _ in range(2):
        with pytest.raises(ManyTablesFailed):
            lake.run()
        assert not lake.is_settled
    file.write_bytes(whole)
    lake.run()
    assert lake.is_settled


@pytest.mark.slow
def test_what_waits_is_named(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = IdleLake(tmp_path, max_staleness="2 days")
    for number in (1, 2):
        lake.drop(f"{number}.jsonl", {"id": number, "v": number})
        lake.run()
    capsys.readouterr()
    lake.run()
    said = capsys.readouterr().out
    assert said.startswith(f"{IDLE}t: 1 change to be merged, not before ")
