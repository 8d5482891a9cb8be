import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakehouse.config.target import Target
from lakehouse.places.lock_files import DiskLock
from lakehouse.storage import locks
from lakehouse.storage.locks import Holder, hold_commit_lock, hold_locks

HOLD = """
import sys
from lakehouse.storage.locks import hold_locks
from lakehouse.config.target import Target
with hold_locks(Target(root=sys.argv[1]), ["silver.orders"], "theirs") as refused:
    print(len(refused), flush=True)
    sys.stdin.read()
"""

SHARE = """
import sys
from lakehouse.storage.locks import hold_commit_lock
from lakehouse.config.target import Target
with hold_commit_lock(Target(root=sys.argv[1])):
    print(0, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(root=str(tmp_path))


def other_process(target: Target, what: str = HOLD) -> "subprocess.Popen[str]":
    started = subprocess.Popen(
        [sys.executable, "-c", what, str(target.root)], text=True, cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert started.stdout is not None
    assert started.stdout.readline() == "0\n"
    return started


def test_a_second_run_is_told_who_holds_the_table(target: Target) -> None:
    other = other_process(target)
    with hold_locks(target, ["silver.orders", "silver.items"], "ours") as refused:
        assert list(refused) == ["silver.orders"]
        assert str(refused["silver.orders"]).startswith("run theirs on ")
        assert f"process {other.pid}" in str(refused["silver.orders"])
    other.communicate("")
    with hold_locks(target, ["silver.orders"], "ours") as refused:
        assert refused == {}


def test_a_killed_runs_lock_is_taken_over(target: Target) -> None:
    other = other_process(target)
    other.kill()
    other.communicate()
    assert list(Path(target.lake, "_locks").glob("*.lock"))
    with hold_locks(target, ["silver.orders"], "ours") as refused:
        assert refused == {}


def test_locks_are_let_go_when_the_run_fails(target: Target) -> None:
    with pytest.raises(ZeroDivisionError), hold_locks(target, ["silver.orders"], "ours"):
        _ = 1 // 0
    assert list(Path(target.lake, "_locks").iterdir()) == []


def elsewhere(target: Target) -> Path:
    """A lock of a run on another machine."""
    file = Path(target.lake, "_locks", "silver.orders.lock")
    file.parent.mkdir(parents=True)
    holder = Holder.model_validate(
        {"host": "far", "pid": os.getpid(), "born": "", "run_id": "far", "since": 0}
    )
    file.write_text(holder.model_dump_json())
    return file


def test_a_lock_elsewhere_that_stands_still_is_stale(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "BEAT_SECONDS", 0.01)
    elsewhere(target)
    with hold_locks(target, ["silver.orders"], "ours") as refused:
        assert refused == {}


def test_a_lock_elsewhere_that_beats_is_respected(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = elsewhere(target)

    def beats(_: float) -> None:
        file.write_text(file.read_text().replace('"beat":0', '"beat":1'))

    monkeypatch.setattr(locks.time, "sleep", beats)
    with hold_locks(target, ["silver.orders"], "ours") as refused:
        assert list(refused) == ["silver.orders"]


def test_of_many_runs_that_want_a_stale_lock_one_gets_it(tmp_path: Path) -> None:
    file = tmp_path / "t.lock"

    def take(number: int) -> bool:
        lock, text = DiskLock(file), f"run {number}"
        return lock.create(text) if number % 2 else lock.take_over(text, "stale")

    with ThreadPoolExecutor(8) as pool:
        for _ in range(300):
            file.write_text("stale")
            got = [number for number, has in enumerate(pool.map(take, range(8))) if has]
            assert [f"run {number}" for number in got] == [file.read_text()]
    assert [each.name for each in tmp_path.iterdir()] == ["t.lock"]


def test_a_torn_lock_file_holds_nobody_up(target: Target) -> None:
    elsewhere(target).write_text('{"host": "f')
    with hold_locks(target, ["silver.orders"], "ours") as refused:
        assert refused == {}


def test_a_run_tells_that_it_is_alive(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "BEAT_SECONDS", 0.01)
    file = Path(target.lake, "_locks", "silver.orders.lock")
    with hold_locks(target, ["silver.orders"], "ours"):
        beats = set()
        while len(beats) < 3:
            beats.add(Holder.model_validate_json(file.read_text()).beat)


def check_commit_waits_until_killed(target: Target, other: "subprocess.Popen[str]") -> None:
    """Our commit waits while the other process holds the lock of commits, and for no longer."""
    had = threading.Event()

    def ours() -> None:
        with hold_commit_lock(target):
            had.set()

    waiting = threading.Thread(target=ours, daemon=True)
    waiting.start()
    assert not had.wait(0.5)
    other.kill()
    assert had.wait(30)
    other.communicate()
    waiting.join()


def test_a_commit_waits_for_another_processs_and_not_for_a_killed_ones(target: Target) -> None:
    check_commit_waits_until_killed(target, other_process(target, SHARE))
