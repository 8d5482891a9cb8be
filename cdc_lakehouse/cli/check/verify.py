"""`verify`: the laws of a table, checked on stored data, or gold against its source database."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated

import typer

from bronze.files.overwritten import count_unread
from cdc_lakehouse.cli.ask.queries import ShownStatus
from cdc_lakehouse.cli.front import check_lake, choose_one, command, load_conf, open_lake
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.cli.work.rounds import raise_all
from cdc_lakehouse.terminal.console import add_colours, show_progress, wrap_line
from gold.source_check.verified import keep_proof, read_verified, sweep_tables
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError, LawsBroken, SourceDiffers, TableFailed
from lakehouse.storage.lake import Lake
from lakehouse.words import render_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gold.source_check.digests import Difference
    from gold.source_check.verdict import SourceDatabase, Verdict
    from silver.audit.verify import Law
    from silver.state.table_state import TableState

MOST_NAMED = 100
_WHY_UNCHECKED = "a snapshot's changes come from comparing it with the rows before it"

Name = Annotated[
    str | None, typer.Argument(metavar="TABLE", help="The table to look at; without, every one.")
]
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
    typer.Option(metavar="SCHEMA.TABLE", help="Its table there, where the topics do not name it."),
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
    table: Name = None,
    sample: Sample = 1000,
    every_key: EveryKey = False,
    shown: ShownStatus = "table",
    source: Source = None,
    source_table: SourceTable = None,
    at_rest: AtRest = False,
) -> None:
    """Check a table's laws on the stored data; exit code 1 when one is broken.

    One row per key, no overlapping versions, gaps only after deletes, the current rows are the open
    versions, every bronze record is in the change log once, the outcomes of every run add up, and a
    sample of the keys comes out the same when it is rebuilt from bronze. `status` shows up to which
    batch a table was found so.

    With --source gold is compared with the database that the table comes from: digests by bucket,
    then the rows that differ. Exit code 1 when some difference is real; what is newer at the source
    than what is applied is in flight and shown apart. `status` shows up to which position a table
    was found equal. What was equal before an interruption is not compared again. An empty URL is
    none.
    """
    target, tables = load_conf(choose_one(chosen, table) if table else chosen)
    source = source or None
    if source_table is not None and len(tables) != 1:
        expected, action = "one table of gold beside it", "name it: `lakehouse verify TABLE`"
        several = f"{len(tables)} tables"
        raise ConfigurationError("command line", "--source-table", several, expected, action)
    if source is not None:
        from gold.source_check.database import resolve_url

        source = resolve_url(source)
    check_lake(target)
    lake = open_lake(target, tables, sends_functions=source is None, asks=chosen)
    as_json = shown == "json"
    if source is None:
        raise_all(_check_laws(lake, tables, None if every_key else sample, as_json))
        return
    from gold.source_check.database import with_secret, without_password
    from gold.source_check.verdict import SourceDatabase

    given = SourceDatabase(with_secret(lake.spark, source), source_table, at_rest)
    if len(tables) == 1:
        check_source(lake, tables[0], given, as_json)
        return
    with sweep_tables(target, [one.table for one in tables], without_password(source)) as equal:

        def check(one: Table) -> None:
            check_source(lake, one, given, as_json, equal.get(one.table))

        failures = _check_each(tables, as_json, check)
    raise_all(failures)


def _check_each(
    tables: list[Table], as_json: bool, check: "Callable[[Table], None]"
) -> list[TableFailed]:
    """Checks every table; returns the failures of several, as one stops no other.

    Raises:
        TableFailed: the only table fails.
    """
    failures = []
    for one in tables:
        if len(tables) > 1 and not as_json:
            print(f"{one.table}:")
        try:
            check(one)
        except TableFailed as failure:
            if len(tables) == 1:
                raise
            failures.append(failure)
    return failures


def _check_laws(
    lake: Lake, tables: list[Table], sample: int | None, as_json: bool
) -> list[TableFailed]:
    """Shows how each law of each table does; a sample of None rebuilds every key.

    Some tables are judged at once, as planning a table's query takes longer than its work. One
    whose YAML does not fit what it was built with is refused: the laws follow from its YAML.

    Raises:
        TableFailed: a law of the only table is broken.
    """
    from gold.views import agreement
    from silver.audit.verify import verify as judge_table
    from silver.state.fingerprint import check_configuration
    from silver.state.table_state import TableState, read_states

    with show_progress("reading what is known"):
        states = read_states(lake)

    def judge(one: Table) -> "tuple[TableState, list[Law]]":
        state = states.get(one.table, TableState())
        check_configuration(one, state.built)
        shows = agreement.build_gold_laws(lake, one)
        return state, judge_table(lake, one, shows, sample, state)

    pool = ThreadPoolExecutor(lake.at_once)
    judged = {one.table: pool.submit(judge, one) for one in tables}

    def show(one: Table) -> None:
        with show_progress(f"verifying {one.table}"):
            state, laws = judged[one.table].result()
        print("\n".join(render_laws(one, laws, as_json)))
        _keep_verdict(lake.target, one, state, laws)

    try:
        return _check_each(tables, as_json, show)
    finally:
        pool.shutdown(cancel_futures=True)


def _keep_verdict(target: Target, table: Table, state: "TableState", laws: "list[Law]") -> None:
    """Records the proof that every law holds for what was applied.

    Raises:
        LawsBroken: one of them is broken.
    """
    broken = [law.law for law in laws if not law.holds]
    if broken:
        raise LawsBroken(table.table, broken)
    if state.batch:
        of_some = [f", {law.checked:,} of its keys" for law in laws if law.is_sampled]
        keep_proof(target, table.table, f"batch {state.batch}{''.join(of_some)}")


def render_laws(table: Table, laws: "Sequence[Law]", as_json: bool = False) -> "Iterator[str]":
    """A line for each law, and why a table of snapshot files lacks one of them."""
    from silver.audit.recomputed import SAME

    if as_json:
        for law in laws:
            line = {"table": table.table, **law._asdict(), "holds": law.holds}
            yield json.dumps(line, ensure_ascii=False)
        return
    yield from (add_colours(_render_law(law)) for law in laws)
    if table.format == "snapshot":
        yield f"{'-':<7} {SAME:<51}  not checked:\n        {_WHY_UNCHECKED}"


def _render_law(law: "Law") -> str:
    """The verdict, the law, how many units were looked at, and the first that break it."""
    line = f"{'ok' if law.holds else 'FAILED':<7} {law.law:<51} {law.checked:>12,} checked"
    if law.holds:
        return line
    return "\n".join(
        [line, f"        {law.broken:,} broken:", *[f"        {u}" for u in law.first]]
    )


def check_source(
    lake: Lake, table: Table, given: "SourceDatabase", as_json: bool, equal: str | None = None
) -> None:
    """Compares a table with its source and shows every row that differs.

    `equal` is the time at which an interrupted comparison of all tables found this one equal: it is
    not compared again.

    Raises:
        SourceDiffers: some difference is real.
    """
    from gold.source_check.verdict import compare_with_source

    if equal is not None:
        prior = read_verified(lake.target, table.table)
        times = {"verified_through": prior.through, "verified_at": prior.at}
        text = f"equal through {prior.through}, compared at {equal[:16]}Z before an interruption"
        print(json.dumps({"table": table.table, **times}) if as_json else text)
        return
    given = given._replace(unread=count_unread(lake.target, table))
    with show_progress(f"comparing {table.table} with its source") as tell:
        result = compare_with_source(lake, table, given, tell=tell)
    for sort, rows in (("real", result.real), ("in flight", result.in_flight)):
        for row in rows[:MOST_NAMED]:
            if as_json:
                line = {"difference": sort, "what": row.what, "key": row.key, "gold": row.gold}
                print(json.dumps(line | {"source": row.source}, ensure_ascii=False))
            else:
                print("\n".join(wrap_line(_render_difference(sort, row))))
    if as_json:
        print(_summary_to_json(result, given.unread))
    else:
        print("\n".join(_render_summary(result, given.unread)))
    if result.real:
        raise SourceDiffers(table.table, len(result.real))


def _render_difference(sort: str, row: "Difference") -> str:
    key = ", ".join(f"{name}={value}" for name, value in row.key.items())
    line = f"{sort:<10} {row.what:<22} {key}"
    if row.gold is None or row.source is None:
        return line
    sides = [f"{c}: gold {row.gold[c]!r}, source {row.source[c]!r}" for c in row.gold]
    return f"{line}  ({'; '.join(sides)})"


def _summary_to_json(verdict: "Verdict", unread: int) -> str:
    counts = {"real": len(verdict.real), "in_flight": len(verdict.in_flight)}
    rows = {"gold_rows": verdict.gold_rows, "source_rows": verdict.source_rows}
    line = {"source": verdict.source, **rows, **counts, "not_compared": verdict.left_out}
    line |= {"verified_through": verdict.through, "resumed_parts": verdict.resumed}
    line |= {"unread_files": unread}
    return json.dumps(line, ensure_ascii=False)


def _render_summary(verdict: "Verdict", unread: int) -> "Iterator[str]":
    yield from wrap_line(
        f"{render_count(verdict.gold_rows, 'row')} in gold, {verdict.source_rows:,} in "
        f"{verdict.source}: {render_count(len(verdict.real), 'real difference')}, "
        f"{len(verdict.in_flight):,} in flight"
    )
    if verdict.through is not None:
        yield f"equal through {verdict.through}"
    if verdict.resumed:
        parts = render_count(verdict.resumed, "part")
        yield f"{parts} of the keys were equal before an interruption"
    if verdict.left_out:
        yield from wrap_line(f"not compared: {', '.join(verdict.left_out)}")
    if unread and (verdict.in_flight or verdict.real):
        files = render_count(unread, "landing file")
        yield from wrap_line(f"{files} not read yet; do: `lakehouse run`, then compare again")
    elif verdict.in_flight:
        yield from wrap_line(
            "in flight: newer at the source than what is applied; run again after `lakehouse run` "
            "(what then differs as before is real), or with --at-rest when everything is applied"
        )
