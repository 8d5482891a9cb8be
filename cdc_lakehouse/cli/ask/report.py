"""`report`: one page about how the lakehouse does."""

from pathlib import Path
from typing import Annotated

import typer

from cdc_lakehouse.cli.ask.status_records import ask_status
from cdc_lakehouse.cli.front import check_lake, command, load_whole_conf, start_spark
from cdc_lakehouse.cli.options import Chosen
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError
from lakehouse.storage.lake import Lake
from lakehouse.words import render_count

Output = Annotated[
    Path | None,
    typer.Option(help="The file to write. In a local lake: DIR/lake/_report/report.html."),
]
Docs = Annotated[
    Path | None, typer.Option(help="Folder of the Data Docs to link; default lake/_docs.")
]


@command("report")
def report(chosen: Chosen, output: Output = None, docs: Docs = None) -> None:
    """Write one self-contained HTML page: flow, freshness, volumes, quality, drift over time.

    It shows every run with its duration and error, and every table with its columns and rules. It
    needs nothing from the network: open it, mail it, keep it.
    """
    from cdc_lakehouse.terminal.console import show_progress

    target, tables, everything = load_whole_conf(chosen)
    file = find_report_file(target, output)
    check_lake(target)
    spark = start_spark(target, tables)

    from gold.report.html import write_report

    with show_progress("report") as tell:
        tell(f"asking about {render_count(len(tables), 'table')}")
        pipeline = ask_status(Lake(spark, target), tables, everything)
        docs = docs or (None if target.catalog else Path(target.lake, "_docs"))
        write_report(spark, target, tables, file, pipeline, docs)
    print(f"report of {render_count(len(tables), 'table')} in {file}")


def find_report_file(target: Target, output: Path | None = None) -> Path:
    """The absolute path of the report: `output`, or the lake's own.

    Raises:
        ConfigurationError: no file is given, and the lake is in a catalog or an object store; or
            `output` is a folder.
    """
    if output is None and (target.catalog or "://" in target.lake):
        expected = "a file, such as /Volumes/catalog/gold/reports/report.html"
        raise ConfigurationError("command line", "--output", "nothing", expected, "name one")
    if output is not None and output.is_dir():
        expected = "a file; this is a folder"
        action = "name a file in it, such as report.html"
        raise ConfigurationError("command line", "--output", str(output), expected, action)
    return (output or Path(target.lake, "_report", "report.html")).absolute()
