"""`verify`: the laws of a table, proved on what is stored."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_lakehouse.cli.ask.queries import ShownStatus
from cdc_lakehouse.cli.check import source_check
from cdc_lakehouse.cli.front import check_lake, command, configured, start
from cdc_lakehouse.cli.options import Chosen
from lakehouse.errors import LawsBroken

if TYPE_CHECKING:
    from silver.audit.verify import Law

Name = Annotated[str, typer.Argument(metavar="TABLE", help="The table to look at.")]
Sample = Annotated[
    int, typer.Option(min=1, help="About how many keys are rebuilt from bronze and compared.")
]
EveryKey = Annotated[bool, typer.Option("--all", help="Rebuild every key.")]
Source = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Compare gold with this database (SQLAlchemy URL) instead."),
]
SourceTable = Annotated[
    str | None,
    typer.Option(metavar="SCHEMA.TABLE", help="Its table there, where the topics do not tell."),
]
AtRest = Annotated[
    bool,
    typer.Option(
        "--at-rest", help="The source is at rest and everything is applied: nothing is in flight."
    ),
]


@command("verify")
def verify(
    chosen: Chosen,
    table: Name,
    sample: Sample = 1000,
    every_key: EveryKey = False,
    shown: ShownStatus = "table",
    source: Source = None,
    source_table: SourceTable = None,
    at_rest: AtRest = False,
) -> None:
    """Prove a table's laws on what is stored; exit code 1 when one is broken.

    One row per key, no overlapping versions, gaps only after deletes, the current rows are the open
    versions, every bronze record is in the change log once, the classes of every run add up, and a
    sample of the keys comes out the same when it is rebuilt from bronze. Nothing is written.

    With --source gold is compared with the database that the table comes from: digests by bucket,
    then the rows that differ. Exit code 1 when some difference is real; what is newer at the source
    than what is applied is in flight and shown apart.
    """
    from cdc_lakehouse.terminal.console import progress

    target, (one,) = configured(chosen._replace(only=[table]))
    url = None if source is None else source_check.checked(source)
    check_lake(target)
    spark = start(target, [one], sends_functions=url is None)

    from gold.views import agreement
    from silver.audit import verify as stored

    if url is not None:
        given = source_check.source(url, source_table, at_rest)
        source_check.check(spark, target, one, given, shown == "json")
        return
    with progress(f"verifying {table}"):
        shows = agreement.laws(spark, target, one)
        laws = stored.verify(spark, target, one, shows, None if every_key else sample)
    for law in laws:
        print(_json(law) if shown == "json" else _line(law))
    broken = [law.law for law in laws if not law.holds]
    if broken:
        raise LawsBroken(table, broken)


def _line(law: "Law") -> str:
    """The verdict, the law, how many units were looked at, and the first that break it."""
    line = f"{'ok' if law.holds else 'FAILED':<7} {law.law:<51} {law.checked:>12,} checked"
    if law.holds:
        return line
    return "\n".join([f"{line}, {law.broken:,} broken", *[f"        {unit}" for unit in law.first]])


def _json(law: "Law") -> str:
    return json.dumps({**law._asdict(), "holds": law.holds}, ensure_ascii=False)
