"""The console scripts of the single layers: `bronze`, `silver` and `gold`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cdc_lakehouse.cli.front import application, enter, interruptible
from cdc_lakehouse.cli.help import examples
from cdc_lakehouse.cli.options import Chosen, with_common_options
from cdc_lakehouse.cli.work.run import Asked, Continuous, Interval, RunId, pause_of, run_layers
from lakehouse.config.table import Table
from lakehouse.config.target import Layer, Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_lakehouse.cli.work.run import After
    from lakehouse.run.ledger import Entry

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
        run_layers(chosen, Asked([layer], pause_of(interval), continuous, run_id))

    def bronze_layer(
        chosen: Chosen,
        continuous: Continuous = False,
        interval: Interval = "5s",
        run_id: RunId = None,
        apply: Apply = None,
    ) -> None:
        after = _tell_next_tasks(apply) if apply else None
        run_layers(chosen, Asked([layer], pause_of(interval), continuous, run_id, after=after))

    single = application(f"Run the {layer} layer.")
    command = interruptible(with_common_options(bronze_layer if layer == "bronze" else one_layer))
    single.command(layer, epilog=examples(layer))(command)
    enter(single, arguments, layer)


def _tell_next_tasks(apply: str) -> "After":
    """Sets the task value by which a Databricks job starts silver and gold, or does not."""

    def tell(
        spark: "SparkSession", target: Target, tables: list[Table], entries: "list[Entry]"
    ) -> None:
        from bronze.task_value import is_unapplied, set_unapplied

        always = apply == "always"
        set_unapplied(spark, always or is_unapplied(spark, target, tables, entries))

    return tell
