"""`dead-letters replay`: after a fix, the rejected records take their place."""

import importlib
import uuid

from lakehouse.cli.dead_letters import KeyText, Reasons, letters, wanted_key
from lakehouse.cli.front import command, configured, start
from lakehouse.cli.run import fail_at_the_end, one_round
from lakehouse.options import Chosen


@command("replay", of=letters)
def replay(chosen: Chosen, reason: Reasons = None, key: KeyText = None) -> None:
    """Try unresolved dead letters again, after the YAML or a rule has been mended.

    Their bronze records are decoded and judged as today; what is good now is applied at its own
    place in order. It can be repeated at any time: nothing is applied twice.
    """
    from lakehouse.console import progress

    target, tables = configured(chosen)
    everything = configured(chosen._replace(only=()))[1]
    sought = wanted_key(key, tables)
    spark = start(target, tables)
    chosen_letters = importlib.import_module("silver.dead_letter_list").Wanted(reason or (), sought)
    silver = importlib.import_module("silver.replay_job")
    with progress("replay") as tell:
        done, entries = silver.replay_all(
            spark, target, tables, chosen_letters, uuid.uuid4().hex, tell
        )
    for each in done:
        print(f"{each.table:<24} {each.resolved:>8,} of {each.tried:,} dead letters resolved")
    published = one_round(spark, target, tables, ["gold"], everything=everything)
    fail_at_the_end([*entries, *published])
