"""`plan`: what the current YAML would change; without Spark where the lake has no catalog."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

import typer

from cdc_lakehouse.cli.front import command, load_whole_conf, open_lake
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.cli.silence import without_yaml
from cdc_lakehouse.terminal.console import show_records, wrap_line
from gold.status.plan import WORST, Held, Planned, plan_changes
from lakehouse.config.column_types import read_type
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import ledger
from lakehouse.storage.delta_log import read_table_log
from lakehouse.storage.lake import Lake
from silver.contract import kept_name

ShownPlan = Annotated[
    Literal["table", "json", "markdown"], typer.Option("--format", help="How the plan is shown.")
]
ACTIONS = {
    "rebuild": "lakehouse rebuild {table}",
    "rename": "the next run builds it anew",
    "widen": "the next run does it",
    "add": "the next run does it",
    "cluster": "lakehouse maintain --table {table}",
    "new": "lakehouse run --table {table}",
    "nothing": "",
}


@command("plan")
def plan(chosen: Chosen, shown: ShownPlan = "table") -> None:
    """Show what the current YAML would change: nothing, order of files, wider columns, rebuilds.

    Nothing is written. A table that has to be rebuilt is refused by `run` until it is; one whose
    columns only have new names is built anew by `run`.
    """
    target, tables, everything = load_whole_conf(chosen)
    plans = plan_tables(target, tables)
    if shown == "markdown":
        print("\n".join(_render_markdown(plans)))
    elif shown == "json":
        show_records([each._asdict() for each in plans], as_json=True)
    else:
        show_records([_build_row(each) for each in plans], as_json=False)
        changed = [each for each in plans if each.effect not in ("new", "nothing")]
        reasons = [f"{each.table}: {why}" for each in changed for why in each.why]
        for text in [*reasons, *without_yaml(target, everything)]:
            print("\n".join(wrap_line(text)))


def plan_tables(target: Target, tables: Sequence[Table]) -> list[Planned]:
    """What the YAML of each table would change, the largest effects first."""
    remembered = _read_fingerprints(target, tables)
    plans = [plan_changes(t, _read_held(target, t, remembered.get(t.table, {}))) for t in tables]
    return sorted(plans, key=lambda each: WORST.index(each.effect))


def _render_markdown(plans: Sequence[Planned]) -> Iterator[str]:
    """A table for a comment on a pull request, and why each table changes."""
    rows = [_build_row(each) for each in plans]
    head = ("table", "effect", "records", "rows", "do")
    yield f"| {' | '.join(head)} |"
    yield "|---|---|--:|--:|---|"
    for row in rows:
        cells = ["" if row[name] is None else str(row[name]) for name in head]
        cells[-1] = f"`{cells[-1]}`" if cells[-1].startswith("lakehouse") else cells[-1]
        yield f"| {' | '.join(cells)} |"
    reasons = [f"- `{each.table}`: {why}" for each in plans for why in each.why]
    yield from ["", *reasons] if reasons else []


def _build_row(each: Planned) -> dict[str, object]:
    return {
        "table": each.table,
        "effect": each.effect,
        "records": each.records,
        "rows": each.rows,
        "do": ACTIONS[each.effect].format(table=each.table),
    }


def _read_held(target: Target, table: Table, fingerprint: Mapping[str, str]) -> Held | None:
    """What the lake holds of a table: read from the files, or by Spark from a catalog."""
    from silver.state.fingerprint import list_differences, list_renames

    different = list(list_differences(table, fingerprint))
    renamed = bool(list_renames(table, fingerprint))
    if target.catalog:
        lake = open_lake(target, [table])
        if not lake.exists("silver", f"{table.table}_changes"):
            return None
        columns = lake.column_types("silver", f"{table.table}_changes")
        kinds = {name: str(read_type(kind)) for name, kind in columns.items()}
        records = lake.spark.table(lake.name("silver", f"{table.table}_changes")).count()
        return Held(kinds, different, records, None, _cluster_columns(lake, table), renamed)
    changes = read_table_log(target, "silver", f"{table.table}_changes")
    if changes is None:
        return None
    current = read_table_log(target, "silver", table.table)
    kept = read_table_log(target, "silver", kept_name(table))
    rows = current.rows if current else None
    clustered = kept.clustered if kept else table.cluster_by
    return Held(changes.columns, different, changes.rows, rows, clustered, renamed)


def _cluster_columns(lake: Lake, table: Table) -> list[str]:
    from lakehouse.storage.upkeep import read_facts

    if not lake.exists("silver", kept_name(table)):
        return table.cluster_by
    return [*read_facts(lake.spark, lake.name("silver", kept_name(table))).layout.cluster_by]


def _read_fingerprints(target: Target, tables: Sequence[Table]) -> Mapping[str, Mapping[str, str]]:
    """The fingerprint of every table, from its newest state in the ledger."""
    if target.catalog:
        states = ledger.read_states(open_lake(target, tables))
    else:
        states = ledger.read_local_states(target) or {}
    return {table: json.loads(state).get("built", {}) for table, state in states.items()}
