"""Warnings about runs that succeed, so that nothing goes wrong in silence."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bronze.files.overwritten import overwritten_files
from bronze.loss.missing_input import missing_folders, missing_input
from cdc_lakehouse.drafts.topic_notes import list_gone_topics
from cdc_lakehouse.terminal.console import warn
from gold.status.column_hints import column_hints, planned_rebuilds
from gold.status.status_file import sum_up
from lakehouse.config.loading import find_yaml
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import TableFailed
from lakehouse.places.place import to_place
from lakehouse.storage.delta_log import read_table_log
from lakehouse.storage.names import list_tables_in
from silver.contract import MEMBER_TYPES

CHECK, DECIDING = "# check", ("keys:", "sequence_by:", "apply_as_deletes:", "mode:")
"""The mark of a guess, and the keys of which a guess keeps a table from being run.

A line `# apply_as_deletes:` is one as well: it says that nothing is deleted.
"""


def warnings_of(target: Target, tables: Sequence[Table]) -> dict[str, list[str]]:
    """By table what a run warns of: `lasting_warnings`, missing folders, a YAML that changed."""
    checks = (missing_folders, planned_rebuilds, lasting_warnings)
    return join_by_table(tables, [check(target, tables) for check in checks])


def lasting_warnings(target: Target, tables: Sequence[Table]) -> dict[str, list[str]]:
    """By table: no input or topic, overwritten files, columns and names that never came.

    They stay as they are until the next run.
    """
    checks = (missing_input, overwritten_files, column_hints, unknown_names, list_gone_topics)
    return join_by_table(tables, [check(target, tables) for check in checks])


def join_by_table(
    tables: Sequence[Table], sentences: Sequence[Mapping[str, Sequence[str]]]
) -> dict[str, list[str]]:
    """Several lists of sentences by table as one, with every table."""
    return {t.table: [text for each in sentences for text in each.get(t.table, ())] for t in tables}


def unknown_names(target: Target, tables: Sequence[Table]) -> dict[str, list[str]]:
    """By table a sentence for each name in a condition that no record of a local lake has had."""
    from silver.decode.expressions.names import conditions_of, find_unknown_names

    named = [] if target.catalog else [table for table in tables if conditions_of(table)]
    known, said = sum_up(target).tables if named else {}, dict[str, list[str]]()
    for table in named:
        log = read_table_log(target, "silver", f"{table.table}_changes")
        of = known.get(table.table)
        if log and (log.rows or (of and of.counts.get("records"))):
            members = json.loads(of.built.get(MEMBER_TYPES) or "{}") if of else None
            said[table.table] = [*find_unknown_names(table, log.columns, members)]
    return said


def without_yaml(target: Target, everything: Sequence[Table]) -> list[str]:
    """A sentence for each table that a local lake holds and no YAML describes (any more)."""
    if target.catalog:
        return []
    names = list_tables_in(to_place(target, target.lake, "silver"))
    held = {n.removesuffix("_changes") for n in names if n.endswith("_changes") and n[0] != "_"}
    return [
        f"{name}: no YAML describes this table, so nothing brings gold.{name} up to date; do: put"
        f" its YAML back, or read another table in place of gold.{name}"
        for name in sorted(held - {table.table for table in everything})
    ]


def open_checks(conf: Path, tables: Sequence[Table]) -> dict[str, list[str]]:
    """By table, the lines of its YAML that still have the mark `# check` of `init`."""
    open_lines: dict[str, list[str]] = {}
    for table in tables:
        file = find_yaml(conf / "tables", table.table)
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        lines = [line.strip() for line in text.splitlines() if CHECK in line]
        if lines:
            open_lines[table.table] = lines
    return open_lines


def list_guessed(lines: Iterable[str]) -> list[str]:
    """The keys in lines of YAML that keep the table from being run, as they are guessed."""
    marked = [line.strip().replace("# apply_as", "apply_as") for line in lines if CHECK in line]
    return [*dict.fromkeys(line.split(":")[0] for line in marked if line.startswith(DECIDING))]


def split_unconfirmed(conf: Path, tables: Sequence[Table]) -> tuple[list[Table], list[TableFailed]]:
    """The tables whose rows no guess decides, and why the others are refused."""
    refused: dict[str, TableFailed] = {}
    for table, lines in open_checks(conf, tables).items():
        if keys := list_guessed(lines):
            guessed = (
                f"{' and '.join(keys)} in its YAML {'is' if len(keys) == 1 else 'are'} guessed"
            )
            file = find_yaml(conf / "tables", table)
            action = f"look at {file}, then lakehouse validate --accept {table}"
            refused[table] = TableFailed(table, f"{guessed} and not confirmed\n    do: {action}")
    groups = {t.consistency_group: t.table for t in tables if t.table in refused}
    groups.pop(None, None)
    for each in tables:
        if each.consistency_group in groups and each.table not in refused:
            because = f"{groups[each.consistency_group]}, of the same group, is not confirmed"
            refused[each.table] = TableFailed(each.table, because)
    return [table for table in tables if table.table not in refused], [*refused.values()]


def accept_checks(conf: Path, table: str) -> list[str]:
    """Removes the marks from the table's own YAML, and returns its lines as they are now."""
    file = find_yaml(conf / "tables", table)
    accepted = []
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    for at, line in enumerate(lines):
        if CHECK in line:
            lines[at] = line.replace(f"{CHECK}: ", "# ").replace(CHECK, "").rstrip()
            accepted.append(lines[at].strip())
    if accepted:
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return accepted


class Warner:
    """Prints the warnings of some tables on stderr, each once; `warned` are table and text."""

    def __init__(self, target: Target, tables: Sequence[Table]) -> None:
        self._target, self._tables = target, tables
        self.warned: list[tuple[str, str]] = []

    def warn_of_news(self) -> None:
        """Prints the warnings that have come up since the last call."""
        for table, texts in warnings_of(self._target, self._tables).items():
            for text in texts:
                if (table, text) not in self.warned:
                    self.warned.append((table, text))
                    warn(f"{table}: {text}")
