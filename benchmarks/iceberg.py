"""Iceberg with merge-on-read, where `benchmarks/iceberg.sh` has made its environment."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from benchmarks.engine import Engine, Files
from benchmarks.events import Workload, columns, key_columns

HERE = Path(__file__).parent
PYTHON = HERE.parent / ".venv-iceberg" / "bin" / "python"


def engines(folder: Path, work: Workload) -> list[Engine]:
    """The engine, or none where its environment is not there."""
    return [engine(folder, work)] if PYTHON.exists() else []


def engine(folder: Path, work: Workload) -> Engine:
    """A process of its own, which does what it is told line by line."""
    folder.mkdir(parents=True)
    process = subprocess.Popen(
        [str(PYTHON), str(HERE / "iceberg_child.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(folder / "said.log").open("w"),
        text=True,
    )

    def tell(order: Mapping[str, object]) -> Mapping[str, float]:
        if process.stdin is None or process.stdout is None:
            raise BrokenPipeError(str(PYTHON))
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        if not process.stdout.readline():
            raise RuntimeError((folder / "said.log").read_text()[-2000:])
        return {}

    def rows() -> pl.DataFrame:
        tell({"do": "rows", "file": str(folder / "rows")})
        process.terminate()
        process.wait()
        return pl.read_parquet(folder / "rows" / "*.parquet")

    keys = [column.name for column in key_columns(work)]
    listed = [(column.name, column.type) for column in columns(work)]
    tell({"folder": str(folder), "columns": listed, "keys": keys})
    return Engine(
        "Iceberg merge-on-read",
        lambda files: tell({"do": "load", "files": _texts(files)}),
        lambda files: tell({"do": "apply", "files": _texts(files)}),
        rows,
    )


def _texts(files: Files) -> list[str]:
    return [str(file) for file in files]
