"""`report`: one page about how the lakehouse does."""

from pathlib import Path
from typing import Annotated

import typer

from cdc_lakehouse.cli.front import check_lake, command, configured_whole, start
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.cli.silence import warnings_of
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError
from lakehouse.words import counted

Output = Annotated[
    Path | None,
    typer.Option(help="The file to write. In a local lake: DIR/lake/_report/report.html."),
]


@command("report")
def report(chosen: Chosen, output: Output = None) -> None:
    """Write one self-contained HTML page: flow, freshness, volumes, quality, drift over time.

    It needs nothing from the network and no script: open it, mail it, keep it.
    """
    from cdc_lakehouse.terminal.console import progress

    target, tables, everything = configured_whole(chosen)
    file = destination(target, output)
    check_lake(target)
    spark = start(target, tables)

    from gold.report.html import write
    from gold.status.table_status import status

    with progress("report") as tell:
        tell(f"asking about {counted(len(tables), 'table')}")
        warnings = warnings_of(target, tables)
        known = status(spark, target, tables)
        records = [record | {"warnings": warnings[record["table"]]} for record in known]
        write(spark, target, tables, file, records, everything)
    print(f"report of {counted(len(tables), 'table')} in {file}")


def destination(target: Target, output: Path | None = None) -> Path:
    """Where the report goes.

    Raises:
        ConfigurationError: nothing was said, and the target keeps its tables in a catalog; or
            a folder was named.
    """
    if output is None and (target.catalog or "://" in target.lake):
        expected = "a file, such as /Volumes/catalog/gold/reports/report.html"
        raise ConfigurationError("command line", "--output", "nothing", expected, "name one")
    if output is not None and output.is_dir():
        expected = "a file; this is a folder"
        action = "name a file in it, such as report.html"
        raise ConfigurationError("command line", "--output", str(output), expected, action)
    return (output or Path(target.lake, "_report", "report.html")).absolute()
