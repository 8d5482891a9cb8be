"""Tables that all runs write to: one commit at a time, of whatever process."""

import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from lakehouse.config.target import Target
from lakehouse.run import gaps, ledger
from lakehouse.run.gaps import Gap
from lakehouse.storage.lake import Lake
from lakehouse.storage.locks import hold_commit_lock

Commit = Callable[[Lake], object]


def entry(lake: Lake) -> None:
    told = ledger.make_entry("r", "silver", "t", datetime.now(timezone.utc))
    ledger.append_entries(lake, [told])


def gap(lake: Lake) -> None:
    gaps.add_gaps(lake, [Gap(table="t", feed="f", first=time.time_ns(), last=0)], "r")


def closed(lake: Lake) -> None:
    gaps.close_gaps(lake, "true")


def commits(target: Target) -> set[Path]:
    return set(Path(target.lake).glob("*/*/_delta_log/*.json"))


@pytest.mark.slow
def test_commits_to_tables_that_runs_share_wait_for_the_one_before(lake: Lake) -> None:
    for first in (entry, gap):
        first(lake)
    before = commits(lake.target)
    each: list[Commit] = [entry, gap, closed]
    ours = [threading.Thread(target=commit, args=(lake,)) for commit in each]
    with hold_commit_lock(lake.target):
        for thread in ours:
            thread.start()
        time.sleep(3)
        assert all(thread.is_alive() for thread in ours)
        assert commits(lake.target) == before
    for thread in ours:
        thread.join(60)
    assert len(commits(lake.target) - before) == len(each)
