"""What a run warns of once its records are applied: dead letters, rules, and conditions."""

from collections.abc import Iterator, Sequence

from cdc_lakehouse.terminal.console import warn
from lakehouse.config.table import Table
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.storage.lake import Lake
from lakehouse.words import render_count
from silver.contract import DELETE, FILTERED

RULE = "dead_letter:rule:"


def warn_of_records(lake: Lake, tables: list[Table], entries: Sequence[Entry]) -> None:
    """Warns of a rule's first rejections, of many dead letters, of conditions that were never true.

    The exit code stays as it is.
    """
    from silver.changelog.dead_letters import count_too_many

    silver_entries = [entry for entry in entries if entry.layer == "silver"]
    for name, key, records in _find_idle_conditions(lake, tables, silver_entries):
        warn(
            f"{name}: {key} was true for none of its first {render_count(records, 'record')}; "
            "do: compare the condition with the records, or wait for one that it fits"
        )
    for name, rule in _first_rejections(lake, silver_entries):
        warn(
            f"{name}: the rule {rule} rejects rows for the first time; "
            f"do: `lakehouse dead-letters list --table {name} --reason rule`"
        )
    if any(name.startswith("dead_letter:") for entry in silver_entries for name in entry.counts):
        for table, count in count_too_many(lake, tables, silver_entries):
            warn(
                f"{table.table} has {render_count(count, 'unresolved dead letter')}, more than its "
                f"max_dead_letters {table.max_dead_letters:,}; "
                f"do: `lakehouse dead-letters list --table {table.table}`"
            )


def _find_idle_conditions(
    lake: Lake, tables: Sequence[Table], entries: Sequence[Entry]
) -> Iterator[tuple[str, str, int]]:
    """Tables whose first records these are, the condition that none of them met, and their number.

    Judged on the table's first batch only: later silence is normal.
    """
    from silver.decode.expressions.names import conditions_of

    conditions = {table.table: conditions_of(table) for table in tables}
    for entry in entries:
        counts, written = entry.counts, conditions.get(entry.table, {})
        records = counts.get("records", 0)
        if not (records and written) or (entry.batch or 1) > 1:
            continue
        if counts.get(FILTERED) == records:
            yield entry.table, "source.where", records
        elif "apply_as_deletes" in written and not _has_deletes(lake, entry):
            yield entry.table, "apply_as_deletes", records


def _has_deletes(lake: Lake, entry: Entry) -> bool:
    if entry.counts.get("deleted") or entry.counts.get("delete_unknown"):
        return True
    log = lake.spark.table(lake.name("silver", f"{entry.table}_changes"))
    return bool(log.where(log["_operation"] == DELETE).take(1))


def _first_rejections(lake: Lake, entries: Sequence[Entry]) -> list[tuple[str, str]]:
    """Tables and rules that rejected rows in these entries and in none before."""
    now = {(e.table, name): None for e in entries for name in e.counts if name.startswith(RULE)}
    if not now:
        return []
    earlier = ledger.read_entries(lake).where("layer = 'silver'")
    earlier = earlier.where(~earlier["run_id"].isin([entry.run_id for entry in entries]))
    named = earlier.selectExpr("`table`", "explode(map_keys(counts)) AS name").distinct()
    before = {(row["table"], row["name"]) for row in named.collect()}
    return [(table, name.split(":", 2)[2]) for table, name in now if (table, name) not in before]
