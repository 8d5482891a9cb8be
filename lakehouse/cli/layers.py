"""The console scripts of the single layers: `bronze`, `silver` and `gold`."""

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lakehouse.cli.front import application, enter, interruptible
from lakehouse.cli.help import examples
from lakehouse.cli.run import Continuous, Interval, RunId, run_layers
from lakehouse.options import Chosen, with_common_options
from lakehouse.table import Table
from lakehouse.target import Layer, Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.cli.run import After
    from lakehouse.ledger import Entry

Apply = Annotated[
    Literal["always", "when_new"] | None,
    typer.Option(help="In a Databricks job: start silver and gold, or only when they have work."),
]


def run_layer(layer: Layer, arguments: Sequence[str] | None = None) -> None:
    """The console scripts `bronze`, `silver` and `gold`: that one layer of `run`."""

    def one_layer(
        chosen: Chosen,
        continuous: Continuous = False,
        interval: Interval = "5s",
        run_id: RunId = None,
    ) -> None:
        run_layers(chosen, [layer], continuous, interval, run_id)

    def bronze_layer(
        chosen: Chosen,
        continuous: Continuous = False,
        interval: Interval = "5s",
        run_id: RunId = None,
        apply: Apply = None,
    ) -> None:
        after = _tell_next_tasks(apply) if apply else None
        run_layers(chosen, [layer], continuous, interval, run_id, after)

    single = application(f"Run the {layer} layer.")
    command = interruptible(with_common_options(bronze_layer if layer == "bronze" else one_layer))
    single.command(layer, epilog=examples(layer))(command)
    enter(single, arguments, layer)


def _tell_next_tasks(apply: str) -> "After":
    """Sets the task value by which a Databricks job starts silver and gold, or does not."""

    def tell(
        spark: "SparkSession", target: Target, tables: list[Table], entries: "list[Entry]"
    ) -> None:
        bronze = importlib.import_module("bronze.task_value")
        always = apply == "always"
        bronze.set_unapplied(spark, always or bronze.is_unapplied(spark, target, tables, entries))

    return tell
