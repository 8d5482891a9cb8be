"""The passes of all consistency groups of a run, and what they come to for each table."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from lakehouse.table import Table
from lakehouse.target import Target
from silver import group_state, groups
from silver.batch import Seen
from silver.groups import Extend, Moved, Part
from silver.passes import Outcome, Pass, told
from silver.snapshots import TableChanges
from silver.transactions import Waiting


class Apply(Protocol):
    """Applies the part of a table's log that lies above the batch of `seen`."""

    def __call__(
        self,
        spark: SparkSession,
        target: Target,
        table: Table,
        run_id: str,
        rows: DataFrame,
        seen: Seen,
        after: Seen,
    ) -> Pass:
        """Returns the pass."""


def advance(
    spark: SparkSession,
    target: Target,
    tables: Sequence[Table],
    run_id: str,
    known: Mapping[str, Seen],
    extend: Extend,
    apply: Apply,
    progress: Callable[[str], None],
    held: tuple[Waiting, ...] | None = None,
) -> list[Outcome]:
    """One pass of each group that the tables are in; `held` waits, where that is known already.

    Where the groups got to is kept in one commit before anything is written to the ledger: a run
    that is killed in between does its passes again.
    """
    members = groups.groups_of(tables)
    states = group_state.read(spark, target) if members else {}
    outcomes, new = list[Outcome](), False
    for group, of in members.items():
        progress(f"silver {', '.join(table.table for table in of)}")
        began = datetime.now(timezone.utc)
        passes: dict[str, list[Pass]] = {}

        def apply_one(part: Part, passes: dict[str, list[Pass]] = passes) -> None:
            passes[part.member.table.table] = [_pass(spark, target, run_id, part, apply)]

        before = states.get(group, [])
        moved = groups.move(spark, target, group, of, known, before, extend, apply_one, held)
        if moved.state is not None:
            states[group] = [moved.state, *before]
        for table in of:
            done = passes.get(table.table, [])
            message = moved.messages.get(table.table)
            seen = done[-1].seen if done else _unmoved(known[table.table], moved, table)
            logged = moved.after.get(table.table, seen).batch
            outcomes.append(told(table, run_id, seen, done, message, began, logged))
        new = new or moved.state is not None
    if new:
        group_state.write(spark, target, states)
    return outcomes


def _unmoved(seen: Seen, moved: Moved, table: Table) -> Seen:
    """What a member has applied that had nothing to apply: it need not look there again."""
    after = moved.after.get(table.table, seen)
    if moved.messages or after.batch != seen.batch:
        return seen
    return seen._replace(positions=after.positions)


def _pass(spark: SparkSession, target: Target, run_id: str, part: Part, apply: Apply) -> Pass:
    table, seen, after = part.member
    if not part.applying:
        return Pass(after, part.counts, TableChanges([], []), False)
    done = apply(spark, target, table, run_id, part.rows, seen, after)
    return done._replace(counts=done.counts | part.counts)
