"""`dead-letters`: what could not be applied, and why; and trying it again after a fix."""

import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_lakehouse.cli.ask.queries import ShownStatus, to_utc
from cdc_lakehouse.cli.ask.status_records import keep_status
from cdc_lakehouse.cli.front import (
    add_group,
    check_lake,
    command,
    load_conf,
    load_whole_conf,
    open_lake,
)
from cdc_lakehouse.cli.key_text import parse_key
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.cli.work.locking import lock_tables
from cdc_lakehouse.cli.work.rounds import Round, list_failures, raise_all, try_layer, whole_groups
from cdc_lakehouse.terminal.console import (
    fit_line,
    show_grid,
    show_progress,
    wait_for_first,
    wrap_line,
)
from cdc_lakehouse.terminal.grid import Row
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.config.unpacking import find_nearest
from lakehouse.errors import ConfigurationError
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.run.unread import UNREAD
from lakehouse.storage.lake import Lake
from lakehouse.storage.landing import from_landing
from lakehouse.words import render_count
from silver.contract import DEAD_LETTER_REASONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from silver.changelog.dead_letter_list import Wanted

LONGEST_RAW = 120
MOST_REASONS = 8
ASIDE, CLOSED = (
    ("sequence", "rule", "run_id"),
    ("resolved_at", "resolved_by", "acknowledged", "mended_at"),
)
"""Columns that no grid shows, and those that it shows with `--all` only."""

letters = add_group("dead-letters", "See, retry and acknowledge what could not be applied.")

Reasons = Annotated[
    list[str] | None,
    typer.Option("--reason", help="Only this reason, e.g. not_json or rule; repeatable."),
]
KeyText = Annotated[
    str | None,
    typer.Option("--key", help="Only this key, as JSON: '{\"id\": 7}'; needs one --table."),
]
Since = Annotated[str | None, typer.Option(help="Only those written since this time, ISO 8601.")]


@command("list", of=letters)
def list_letters(
    chosen: Chosen,
    reason: Reasons = None,
    key: KeyText = None,
    since: Since = None,
    resolved: Annotated[
        bool, typer.Option("--all", help="Resolved and acknowledged ones too.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, newest first.")] = 100,
    shown: ShownStatus = "table",
) -> None:
    """List what could not be applied, newest first, with the reason and the raw record."""
    moment = since and to_utc(since, "--since")
    _check_reasons(reason)
    target, tables = load_conf(chosen)
    sought = wanted_key(key, tables)
    check_lake(target)

    from silver.changelog.dead_letter_list import Wanted, dead_letters, select_newest

    wanted = Wanted(reason or (), sought, moment, resolved)
    frame = dead_letters(open_lake(target, tables, asks=chosen), tables, wanted)
    if shown == "table":
        _print_table(frame, limit, resolved, target)
    elif frame is not None:
        from cdc_lakehouse.terminal.answers import json_lines

        for line in json_lines(select_newest(frame, limit)):
            print(line)


def wanted_key(key: str | None, tables: list[Table]) -> dict[str, str | None] | None:
    """The key that was asked for, which must be one table's.

    Raises:
        ConfigurationError: there are several tables, or the key is not the table's.
    """
    if key is None:
        return None
    if len(tables) != 1:
        expected = "one --table beside it"
        raise ConfigurationError("command line", "--key", key, expected, "name the key's table")
    return parse_key(key, tables[0])


def _print_table(frame: "DataFrame | None", limit: int, resolved: bool, target: Target) -> None:
    """Prints the newest letters in a grid, and how many there are by table and reason."""
    from cdc_lakehouse.terminal.answers import row_texts
    from silver.changelog.dead_letter_list import count_by_reason, select_newest

    with show_progress("looking for dead letters"):
        counts = [] if frame is None else count_by_reason(frame)
    if frame is not None and counts:
        newest, left_out = select_newest(frame, limit), ASIDE if resolved else (*ASIDE, *CLOSED)
        kept = [at for at, name in enumerate(newest.columns) if name not in left_out]
        texts = wait_for_first("reading dead letters", row_texts(newest))
        rows = (_shorten_row([row[at] for at in kept], target) for row in texts)
        show_grid([newest.columns[at] for at in kept], rows, "--format json shows all")
    for table, reason, count in counts[:MOST_REASONS]:
        print(fit_line(f"{count:>8,}  {table}  {reason}"))
    if len(counts) > MOST_REASONS:
        print(f"          and {len(counts) - MOST_REASONS} more reasons")
    total = sum(count for _, _, count in counts)
    newest_only = f"; the newest {limit:,} are shown" if total > limit else ""
    print(f"{render_count(total, 'dead letter')}{newest_only}")


def _shorten_row(row: Row, target: Target) -> Row:
    """The row with files named from the landing root on, and the raw record, its last cell, cut."""
    *others, raw = row
    cut = raw if raw is None or len(raw) <= LONGEST_RAW else raw[:LONGEST_RAW] + "…"
    return [*(from_landing(text, target) for text in others), cut]


@command("acknowledge", of=letters)
def acknowledge(
    chosen: Chosen,
    because: Annotated[
        str | None, typer.Argument(metavar="WHY", help="Why they need no more attention.")
    ] = None,
    reason: Reasons = None,
    key: KeyText = None,
    since: Since = None,
    file: Annotated[
        str | None, typer.Option(help="Only those of this dropped file, or of a folder.")
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="They count again.")] = False,
) -> None:
    """Say that dead letters are known: they stay stored, are counted apart and ring no more.

    Name them by --table, --reason, --file, --key or --since. A rebuild and a replay keep what was
    acknowledged; `list --all` shows it.
    """
    _check_reason_why(because, undo)
    if not (chosen.only or reason or key or since or file):
        expected, action = "--table, --reason, --file, --key or --since", "say which are meant"
        raise ConfigurationError("command line", "dead-letters", "no choice", expected, action)
    moment = since and to_utc(since, "--since")
    _check_reasons(reason)
    target, tables, everything = load_whole_conf(chosen)
    sought = wanted_key(key, tables)
    check_lake(target)
    lake = open_lake(target, tables)

    from silver.changelog.dead_letter_list import Wanted

    wanted = Wanted(reason or (), sought, moment, file=file, acknowledged=undo)
    for table, count in acknowledge_letters(lake, tables, wanted, because):
        what = "count again" if undo else "acknowledged"
        print(f"{table:<24} {render_count(count, 'dead letter')} {what}")
    keep_status(lake, everything, tables)


def _check_reason_why(because: str | None, undo: bool) -> None:
    """Checks that a reason is given, except with `--undo`.

    Raises:
        ConfigurationError: it is missing, or there is one with `--undo`.
    """
    if undo and because is not None:
        expected, action = "--undo alone", "leave the reason out"
        raise ConfigurationError("command line", "WHY", because or "nothing", expected, action)
    if not undo and not (because or "").strip():
        expected = "a reason, such as 'test data of October'"
        raise ConfigurationError("command line", "WHY", "nothing", expected, "say why")


def _check_reasons(reasons: Sequence[str] | None) -> None:
    """Checks that dead letters can have these reasons.

    Raises:
        ConfigurationError: no dead letter can have one of them.
    """
    for name in reasons or ():
        if name not in DEAD_LETTER_REASONS:
            meant = find_nearest(name, DEAD_LETTER_REASONS)
            expected = ", ".join(DEAD_LETTER_REASONS)
            action = f"did you mean {meant}?" if meant else "name one of them, or none for all"
            raise ConfigurationError("command line", "--reason", name, expected, action)


def acknowledge_letters(
    lake: Lake, tables: list[Table], wanted: "Wanted", why: str | None
) -> list[tuple[str, int]]:
    """Acknowledges the wanted letters, or without a reason takes that back; counts by table.

    The ledger no longer counts acknowledged lines of feeds as unread.
    """
    from silver.changelog import acknowledged
    from silver.changelog.dead_letter_list import count_by_reason, dead_letters

    with show_progress("acknowledging"):
        frame = dead_letters(lake, tables, wanted)
        counts: Counter[str] = Counter()
        for table, _, count in [] if frame is None else count_by_reason(frame):
            counts[table] += count
        if frame is None or not counts:
            return []
        if why is None:
            acknowledged.remove_acknowledgements(lake, frame)
        else:
            acknowledged.acknowledge(lake, frame, why)
        names, now = {table.table for table in tables}, datetime.now(timezone.utc)
        unread = {feed: -n if why else n for feed, n in counts.items() if feed not in names}
        entries = [
            ledger.make_entry(uuid.uuid4().hex, "bronze", feed, now).with_counts({UNREAD: number})
            for feed, number in unread.items()
        ]
        ledger.append_entries(lake, entries)
    return sorted(counts.items())


@command("replay", of=letters)
def replay(chosen: Chosen, reason: Reasons = None, key: KeyText = None) -> None:
    """Try unresolved dead letters again, after the YAML or a rule has been mended.

    Their bronze records are decoded and judged as today; what is good now is applied at its own
    place in order. It can be repeated at any time: nothing is applied twice.
    """
    _check_reasons(reason)
    target, tables, everything = load_whole_conf(chosen)
    sought, run_id = wanted_key(key, tables), uuid.uuid4().hex
    with lock_tables(target, tables, ["silver"], run_id) as (free, failures):
        if free:
            lake = open_lake(target, free, sends_functions=True)

            from silver.changelog.dead_letter_list import Wanted

            wanted = Wanted(reason or (), sought)
            entries = replay_letters(lake, (free, everything), wanted, run_id)
            failures += list_failures(entries)
    raise_all(failures)


def replay_letters(
    lake: Lake, of: tuple[list[Table], list[Table]], wanted: "Wanted", run_id: str
) -> list[Entry]:
    """Replays, prints table by table how many letters are resolved and which stay, and publishes.

    `of` are the tables whose letters are tried, and all that are configured.
    """
    from silver.maintenance.replay import replay_all

    tables, everything = of
    with show_progress("replay") as tell:
        done, entries = replay_all(lake, tables, wanted, run_id, tell)
    for each in done:
        print(f"{each.table:<24} {each.resolved:>8,} of {each.tried:,} dead letters resolved")
    print_remaining(lake, tables, wanted)
    together = whole_groups(tables, everything)
    with show_progress("gold") as tell:
        published = try_layer(Round(lake, None, everything), together, "gold", tell)
        keep_status(lake, everything, together)
    return [*entries, *published]


def print_remaining(lake: Lake, tables: list[Table], wanted: "Wanted") -> None:
    """Prints each reason that is left, with its count and what is wrong with the first letter."""
    from silver.changelog.dead_letter_list import count_with_message, dead_letters

    left = dead_letters(lake, tables, wanted)
    for table, reason, message, count in [] if left is None else count_with_message(left):
        print("\n".join(wrap_line(f"{table}: {count:,} stay, {reason}: {message}")))
