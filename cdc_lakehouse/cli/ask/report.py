"""`report`: one page about how the lakehouse does."""

from pathlib import Path
from typing import Annotated

import typer

from cdc_lakehouse.cli.ask.status_records import find_status
from cdc_lakehouse.cli.front import check_lake, command, load_whole_conf, open_lake
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.terminal.console import show_progress
from gold.report.history import ask_history, read_history
from gold.status.trouble import PipelineStatus
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError
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
    target, tables, everything = load_whole_conf(chosen)
    file = find_report_file(target, output)
    check_lake(target)
    docs = docs or (None if target.catalog else Path(target.lake, "_docs"))
    with show_progress("report"):
        write_page(target, (tables, everything), file, docs)
    print(f"report of {render_count(len(tables), 'table')} in {file}")


def write_page(
    target: Target, of: tuple[list[Table], list[Table]], file: Path, docs: Path | None = None
) -> PipelineStatus:
    """Writes the report about the first of two lists of tables, of all that are configured.

    Returns the status that it shows.
    """
    from gold.report.html import write_report

    tables, everything = of
    pipeline = find_status(target, tables, everything)
    history = (
        ask_history(open_lake(target, tables), tables)
        if target.catalog
        else read_history(target, tables)
    )
    write_report(target, tables, file, (pipeline, history), docs)
    return pipeline


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
