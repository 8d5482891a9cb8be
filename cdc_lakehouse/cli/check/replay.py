"""`dead-letters replay`: after a fix, the rejected records take their place."""

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cdc_lakehouse.cli.check.dead_letters import KeyText, Reasons, letters, wanted_key
from cdc_lakehouse.cli.front import command, configured, start
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.cli.work.locking import locked
from cdc_lakehouse.cli.work.rounds import Round
from cdc_lakehouse.cli.work.run import failed, one_round, raise_all, whole_groups
from lakehouse.config.table import Table
from lakehouse.config.target import Target

if TYPE_CHECKING:
    from lakehouse.run.ledger import Entry


@command("replay", of=letters)
def replay(chosen: Chosen, reason: Reasons = None, key: KeyText = None) -> None:
    """Try unresolved dead letters again, after the YAML or a rule has been mended.

    Their bronze records are decoded and judged as today; what is good now is applied at its own
    place in order. It can be repeated at any time: nothing is applied twice.
    """
    target, tables = configured(chosen)
    everything = configured(chosen._replace(only=()))[1]
    sought, run_id = wanted_key(key, tables), uuid.uuid4().hex
    with locked(target, tables, ["silver"], run_id) as (free, failures):
        if free:
            entries = _replayed(target, free, everything, reason or [], sought, run_id)
            failures += failed(entries)
    raise_all(failures)


def _replayed(
    target: Target,
    tables: list[Table],
    everything: list[Table],
    reasons: list[str],
    key: Mapping[str, str | None] | None,
    run_id: str,
) -> "list[Entry]":
    """Replays, says what came of it table by table, and publishes."""
    from cdc_lakehouse.terminal.console import progress
    from silver.changelog.dead_letter_list import Wanted
    from silver.maintenance.replay import replay_all

    spark = start(target, tables, sends_functions=True)
    wanted = Wanted(reasons, key)
    with progress("replay") as tell:
        done, entries = replay_all(spark, target, tables, wanted, run_id, tell)
    for each in done:
        print(f"{each.table:<24} {each.resolved:>8,} of {each.tried:,} dead letters resolved")
    together = whole_groups(tables, everything)
    published = one_round(Round(spark, target, None, everything), together, ["gold"])
    return [*entries, *published]
