"""This project: the files are dropped, and one round of `lakehouse run` takes them to gold."""

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl
import yaml
from pyspark.sql import SparkSession

from benchmarks.engine import Engine, Files
from benchmarks.events import Workload, columns, key_columns
from cdc_lakehouse.cli.work.rounds import (
    Round,
    do_layer,
    list_failures,
    raise_all,
    write_entries_together,
)
from cdc_lakehouse.cli.work.run import WATCH_SECONDS, one_round
from gold.views.catalog import open_catalog
from lakehouse.config.loading import load_tables, load_target
from lakehouse.config.target import LAYERS, Target
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Memory
from lakehouse.spark.session import get_spark
from lakehouse.storage.lake import Lake

TARGET = {"kind": "local", "root": ".", "driver_memory": "4g"}


def table_of(work: Workload, name: str = "orders", **source: object) -> dict[str, object]:
    """The workload's table as its YAML says it; `source` has options of its source."""
    usual = {"format": "debezium", "path": name, "decimal_handling_mode": "string"}
    return {
        "table": name,
        "source": usual | source,
        "keys": [column.name for column in key_columns(work)],
        "columns": {column.name: column.type for column in columns(work)},
    }


def configure(root: Path, *tables: Mapping[str, object], master: str = "local[*]") -> None:
    """Writes the configuration of a lake: a target and these tables."""
    named = {f"tables/{table['table']}": dict(table) for table in tables}
    for name, document in {"targets/local": TARGET | {"master": master}, **named}.items():
        file = root / "conf" / f"{name}.yml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(document))


def drop(root: Path, files: Files, path: str = "orders") -> None:
    """Puts the files where the lake looks for them."""
    folder = root / "landing" / path
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        os.link(file, folder / file.name)


def session(root: Path, open_ended: bool = False) -> tuple[SparkSession, Target]:
    """Spark as the lake asks for it, by what lies in its landing folder; and its target.

    `open_ended`: as for `--continuous`, whatever lies there.
    """
    target = target_at(root)
    return get_spark(target, open_ended=open_ended), target


def target_at(root: Path) -> Target:
    """The lake below a folder that `configure` has prepared."""
    return load_target(root / "conf", "local", str(root))


def engine(
    lake: Lake,
    goes_on: bool = False,
    view: str | None = None,
    layer_done: Callable[[str], None] | None = None,
) -> Engine:
    """The lake as an engine; its first load finds the files dropped already.

    `goes_on`: its rounds are those of `--continuous`, each of which may leave the MERGE to a later
    one, and the look for gaps for half a minute; what still waits is applied by a round of an
    engine that does not. `view` is the view of gold that `rows` reads, the first table's unless
    named. `layer_done` is called with the layer's name after each layer of a round that `goes_on`.
    """
    root = Path(str(lake.target.root))
    tables = load_tables(root / "conf")
    memory = Memory(len(tables) if goes_on else None)
    given, watched = Round(lake, memory=memory), -WATCH_SECONDS
    run = contextlib.ExitStack()  # It goes on for as long as the process: nothing ends it.
    if goes_on:
        run.enter_context(write_entries_together(lake, list(LAYERS), memory))

    def once() -> list[Entry]:
        nonlocal watched
        if not goes_on:
            return one_round(given, tables, list(LAYERS))
        watch = time.monotonic() - watched >= WATCH_SECONDS
        watched = time.monotonic() if watch else watched
        entries = []
        for layer in LAYERS:
            entries += do_layer(given, tables, layer, print, watch)
            if layer_done is not None:
                layer_done(layer)
        return entries

    def work(_: Files) -> Mapping[str, float]:
        with Path(root, "said.log").open("a") as said, contextlib.redirect_stdout(said):
            entries = once()
        raise_all(list_failures(entries))
        return {layer: _seconds(entries, layer) for layer in LAYERS}

    def apply(files: Files) -> Mapping[str, float]:
        drop(root, files)
        return work(files)

    def rows() -> pl.DataFrame:
        query = f"SELECT * FROM gold.{view or tables[0].table}"
        open_catalog(lake, query)
        return pl.DataFrame(lake.spark.sql(query).toArrow())

    return Engine("cdc-lakehouse", work, apply, rows)


def _seconds(entries: Sequence[Entry], layer: str) -> float:
    """How long a layer took over its tables; several at a time count one after the other."""
    return sum(entry.duration_ms for entry in entries if entry.layer == layer) / 1000
