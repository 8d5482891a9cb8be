"""`sql` and `status`: queries of the lake, and the state of its tables."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cdc_lakehouse.cli.ask.status_records import find_status
from cdc_lakehouse.cli.front import check_lake, command, load_conf, load_whole_conf, open_lake
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.terminal.console import (
    get_width,
    page_grid,
    say,
    show_grid,
    show_progress,
    show_records,
    wait_for_first,
    wrap_line,
)
from gold.capture_status import read_capture
from gold.source_check.verified import NEVER, describe_verified
from gold.status.metrics import render_metrics
from gold.status.trouble import PipelineStatus, Record, list_lines, name_state, worst_first
from lakehouse.config.unpacking import find_nearest
from lakehouse.durations import render_duration
from lakehouse.errors import ConfigurationError, QueryFailed, QueryRefused
from lakehouse.spark.failures import describe_failure
from lakehouse.storage.lake import Lake

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame, SparkSession

MOST_TROUBLE_LINES, MOST_NAMED = 10, 5
ALL_SHOWN = "--format csv or json shows all"

_ASKS = "SELECT, WITH, FROM, VALUES, TABLE, SHOW, DESCRIBE or EXPLAIN"
_READING_COMMANDS = ("Show", "Describe", "Explain")
"""Prefixes of the class names of Spark's commands that change nothing."""
_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
_CHANGING = re.compile(r"\.(Call|InsertIntoDir|\w+ExecuteImmediate|\w+Statement)$|\bdelta\.")
"""Class names of unanalysed plans that change tables or files and are no `Command` of Spark."""
_QUOTED = re.compile(r"'(?:\\.|[^'])*'|\"(?:\\.|[^\"])*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
_QUESTION = re.compile(r"[\s(]*(SELECT|WITH|FROM|VALUES|TABLE|SHOW|DESCRIBE|DESC|EXPLAIN)\b", re.I)
_WRITES = re.compile(
    r"[\s(]*(WITH|FROM)\b.*\b(INSERT\s+(INTO|OVERWRITE)|MERGE\b.*\bINTO|DELETE\s+FROM|UPDATE\b.*\bSET)\b",
    re.I | re.DOTALL,
)
_INSTEAD = {
    "DELETE": "lakehouse erase TABLE --key … removes a key from every layer",
    "OPTIMIZE": "lakehouse maintain",
    "VACUUM": "lakehouse maintain",
    "ANALYZE": "lakehouse maintain",
    "REORG": "lakehouse maintain",
}
_BY_YAML = "change the table's YAML or its source; lakehouse run and lakehouse rebuild write tables"

Shown = Annotated[
    Literal["table", "json", "csv"], typer.Option("--format", help="How the answer is printed.")
]
ShownMetrics = Annotated[
    Literal["table", "json", "prometheus"],
    typer.Option("--format", help="How the answer is printed."),
]
ShownStatus = Annotated[
    Literal["table", "json"], typer.Option("--format", help="How the answer is printed.")
]
AS_OF_HELP = (
    "Answer as of this time, ISO 8601: gold.T of a table with a history shows the rows that were "
    "valid then at the source, everything else stands as the lake held it then."
)
Query = Annotated[list[str], typer.Argument(metavar="QUERY", help="Spark SQL, in quotes.")]
AsOf = Annotated[str | None, typer.Option(help=AS_OF_HELP)]


@command("sql")
def sql(chosen: Chosen, query: Query, shown: Shown = "table", as_of: AsOf = None) -> None:
    """Ask bronze, silver and gold."""
    if len(query) > 1:
        problem, action = f"{len(query)} words", 'put it in quotes: lakehouse sql "SELECT …"'
        raise ConfigurationError("command line", "QUERY", problem, "one quoted text", action)
    moment = as_of and to_utc(as_of)
    target, tables = load_conf(chosen)
    if moment and target.catalog:
        expected = "a lake without a catalog"
        action = "ask gold.T_as_of(TIMESTAMP '…'), or write T TIMESTAMP AS OF '…' in the query"
        raise ConfigurationError("command line", "--as-of", str(as_of), expected, action)
    check_lake(target)
    lake = open_lake(target, tables, asks=None if moment else chosen)
    began = datetime.now(timezone.utc)

    from gold.views.reads import record_query

    views = [f"gold.{name}" for t in tables for name in (t.table, f"{t.table}_history")]
    print_answer(lake, query[0], shown, moment, views)
    if moment is None:
        record_query(lake, tables, query[0], began)


@command("status")
def status(
    chosen: Chosen,
    wide: Annotated[bool, typer.Option("--wide", help="Every column.")] = False,
    shown: ShownMetrics = "table",
) -> None:
    """Show how every table does: trouble first, then rows, lag, pending changes, dead letters."""
    target, tables, everything = load_whole_conf(chosen)
    check_lake(target)
    pipeline = find_status(target, tables, everything)
    if shown == "prometheus":
        shown_metrics = pipeline.records, version("cdc-lakehouse"), read_capture(target)
        print(render_metrics(*shown_metrics), end="")
    else:
        show_status(pipeline, shown == "json", wide)


def print_answer(
    lake: Lake, query: str, shown: str, as_of: str | None = None, views: Sequence[str] = ()
) -> None:
    """Prints the answer to a query over `bronze.T`, `silver.T` and `gold.T`.

    `shown` is `table`, `json`, `csv`, or `pages`: a table that is paged where it is long. `views`
    are names to suggest for a misspelt table.

    Raises:
        QueryRefused: Spark does not understand it, a table is not there, or it is no question.
        QueryFailed: Spark could not carry it out.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import AnalysisException, ParseException, PySparkException

    from gold.job import open_catalog

    try:
        with show_progress("asking"):
            _refuse_commands(lake.spark, query)
            open_catalog(lake, query, as_of=as_of)
            answer = lake.spark.sql(query)
        _print_rows(answer, shown)
    except (AnalysisException, ParseException) as refused:
        raise QueryRefused(_render_refusal(describe_failure(refused), views)) from refused
    except (PySparkException, Py4JJavaError) as failed:
        raise QueryFailed(describe_failure(failed)) from failed


def show_status(pipeline: PipelineStatus, as_json: bool, wide: bool) -> None:
    """Prints status records; in a grid tables in trouble come first, with remedies below it.

    Lines that concern no table come last.
    """
    if as_json:
        show_records(pipeline.records, as_json=True)
        return
    to_row = to_wide_row if wide else to_narrow_row
    show_records([to_row(record) for record in worst_first(pipeline.records)], as_json=False)
    lines = list_lines(pipeline)
    _print_troubles([(table, text) for table, text, _ in lines if table])
    for text in [*(text for table, text, _ in lines if not table), *list_proofs(pipeline.records)]:
        print("\n".join(wrap_line(text)))


def list_proofs(records: Sequence[Record]) -> Iterator[str]:
    """Which tables with records were never verified, and the oldest proof of the others."""
    records = [record for record in records if record["counts"].get("records")]
    proved = [record for record in records if record["verified_at"]]
    if proved:
        oldest = min(proved, key=lambda record: record["verified_at"])
        others = f", as {len(proved) - 1} others since" if proved[1:] else ""
        yield f"{oldest['table']}: {describe_verified(oldest)}{others}"
    names = [record["table"] for record in records if not record["verified_at"]]
    if names:
        more = f" and {len(names) - MOST_NAMED:,} more" if names[MOST_NAMED:] else ""
        yield f"{NEVER}: {', '.join(names[:MOST_NAMED])}{more}; do: `lakehouse verify`"


def _print_troubles(troubles: Sequence[tuple[str, str]]) -> None:
    """Prints a sentence for each trouble of a table.

    On a terminal at most MOST_TROUBLE_LINES lines, so that the grid stays in sight; the first
    trouble of each table goes before the others.
    """
    wrapped = [wrap_line(f"{table}: {text}") for table, text in troubles]
    shown: Sequence[int] = range(len(troubles))
    if get_width() is not None:
        tables = [table for table, _ in troubles]
        by_turn = sorted(shown, key=lambda at: tables[:at].count(tables[at]) > 0)
        needed = [*accumulate(len(wrapped[at]) for at in by_turn)]
        shown = sorted(
            at for at, lines in zip(by_turn, needed, strict=True) if lines <= MOST_TROUBLE_LINES
        )
    for at in shown:
        print("\n".join(wrapped[at]))
    if hidden := len(troubles) - len(shown):
        print(f"… and {hidden} more: --format json shows all")


def to_narrow_row(record: Record) -> dict[str, object]:
    """A status record in six columns."""
    return {
        "table": record["table"],
        "state": name_state(record),
        "rows": record["rows"],
        "lag": render_duration(record["lag_seconds"]),
        "pending": record["pending_changes"],
        "dead letters": record["dead_letters_total"],
    }


def to_wide_row(record: Record) -> dict[str, object]:
    """A status record in one line of a grid."""
    least = record["recommended_max_staleness_minutes"]
    return {
        "table": record["table"],
        "rows": record["rows"],
        "lag": render_duration(record["lag_seconds"]),
        "staleness": render_duration(record["staleness_seconds"]),
        "promised": render_duration(record["max_staleness_seconds"]) or "nothing",
        "stale": "STALE" if record["stale"] else "no",
        "pending": record["pending_changes"],
        "waiting": record["waiting_transactions"],
        "dead letters": record["dead_letters_total"],
        "stale keys": record["stale_keys"],
        "drift": len(record["drift"]),
        "gaps": len(record["gaps"]),
        "order": record["order"],
        "files": record["files"],
        "vectors": record["deletion_vectors"],
        "apply p95": render_duration(record["apply_p95_seconds"]),
        "recommended": render_duration(least and 60 * least),
        "verified through": record["verified_through"] or NEVER,
        "adds up": "yes" if record["accounted"] else "NO",
        "last failure": record["last_failure"],
    }


def to_utc(text: str, option: str = "--as-of") -> str:
    """An ISO 8601 time as Spark reads it in UTC; one without a zone is in UTC.

    Raises:
        ConfigurationError: it is not a time.
    """
    try:
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError as wrong:
        expected = "a time such as 2026-01-31T12:00:00Z"
        raise ConfigurationError("command line", option, text, expected, "correct it") from wrong
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return zoned.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")


def _refuse_commands(spark: "SparkSession", query: str) -> None:
    """Refuses statements that change anything.

    A classic session's parser says what a statement does. On Spark Connect its words have to.

    Raises:
        QueryRefused: the query changes something.
    """
    session = getattr(spark, "_jsparkSession", None)
    if session is None:
        passes = is_question(query)
    else:
        passes = _only_asks(session.sessionState().sqlParser().parsePlan(query))
    if passes:
        return
    first_word = (_QUOTED.sub(" ", query).upper().split() or [""])[0]
    raise QueryRefused(
        f"the query\n  found:    a command, {first_word} …: `lakehouse sql` only asks\n"
        f"  expected: {_ASKS}\n  do:       {_INSTEAD.get(first_word, _BY_YAML)}"
    )


def is_question(query: str) -> bool:
    """Whether a query begins as a question does, and does not go on to write."""
    words = _QUOTED.sub(" ", query)
    return _QUESTION.match(words) is not None and _WRITES.match(words) is None


def _only_asks(plan: "JavaObject") -> bool:
    """Whether a parsed plan, with all its parts, changes no table and no file."""
    kind = plan.getClass()
    if kind.getSimpleName().startswith(_READING_COMMANDS):
        return True
    command = kind.getClassLoader().loadClass(_COMMAND)
    if command.isInstance(plan) or _CHANGING.search(kind.getName()):
        return False
    children = plan.children()
    return all(_only_asks(children.apply(at)) for at in range(children.size()))


def _render_refusal(message: str, views: Sequence[str]) -> str:
    """Spark's message; for a table that does not exist, one that suggests a name."""
    name = re.match(r"\[TABLE_OR_VIEW_NOT_FOUND\] .*?((?:`[^`]+`\.?)+)", message)
    if name is None:
        return message
    written = name[1].replace("`", "")
    meant, action = find_nearest(written, views), 'see `lakehouse sql "SHOW TABLES IN gold"`'
    action = f"did you mean {meant}? Else {action}" if meant else action
    return f"the query\n  found:    {written}\n  expected: a table\n  do:       {action}"


def _print_rows(answer: "DataFrame", shown: str) -> None:
    from cdc_lakehouse.terminal import answers

    if shown in ("table", "pages") and not answer.columns:
        say("done")
    elif shown == "pages":
        page_grid(answer.columns, wait_for_first("asking", answers.row_texts(answer)))
    elif shown == "table":
        show_grid(answer.columns, wait_for_first("asking", answers.row_texts(answer)), ALL_SHOWN)
    else:
        lines = answers.json_lines(answer) if shown == "json" else answers.csv_lines(answer)
        for line in wait_for_first("asking", lines):
            print(line)
