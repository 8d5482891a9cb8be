"""A disk that is full, a lake that is read-only: told with the way out, and nothing is lost."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import parts, postgres
from tests.e2e.live import ends, project
from tests.e2e.one_table import answer, command, drop, events, lake, succeeds
from tests.e2e.parts import ROOT, wait_for
from tests.e2e.test_capture import needs_postgres, rows_of

pytestmark = pytest.mark.live

FULL = "do: the disk is full: free some space and run again; nothing is lost"
READ_ONLY = "do: the lake cannot be written: make it writable and run again; nothing is lost"
# The disk fails after the next commit to each of these.
TABLES = ["bronze/t", "silver/t_changes", "silver/t"]
PART = 1000


def mount(*options: str | Path) -> str:
    """mount(8); returns what it said where it did not."""
    made = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    return made.stderr.strip() or "refused" if made.returncode else ""


def remount(disk: Path, how: str) -> None:
    """As soon as no process that has just ended holds a file open."""
    wait_for(lambda: not mount("-o", f"remount,{how}", disk), 60, f"the disk mounted {how}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own, unmounted with all that was mounted below it."""
    place = tmp_path / "disk"
    place.mkdir()
    refused = mount("-t", "tmpfs", "-o", "size=256m", "tmpfs", place)
    if refused:
        pytest.skip(f"no disk of its own to be had: run as root ({refused})")
    yield place
    subprocess.run(["umount", "--recursive", "--lazy", place], check=True)


def fill(disk: Path) -> None:
    """To the last page."""
    with (disk / "ballast").open("ab") as ballast:
        size = 1 << 24
        while size >= 4096:
            try:
                os.posix_fallocate(ballast.fileno(), os.fstat(ballast.fileno()).st_size, size)
            except OSError:
                size //= 2


def empty(disk: Path) -> None:
    (disk / "ballast").unlink()


def lock(disk: Path) -> None:
    """Nothing more of the lake can be opened for writing, whatever is open already."""
    place = disk / "lake"
    if os.access(place, os.W_OK):
        assert not mount("--bind", place, place)
        assert not mount("-o", "remount,bind,ro", place)


def unlock(disk: Path) -> None:
    subprocess.run(["umount", "--lazy", disk / "lake"], check=True)


def truth(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that the changes leave, by key."""
    rows = {record["key"]["id"]: record["value"]["after"] for record in records}
    return [rows[key] for key in sorted(rows) if rows[key]]


def check(options: list[str], records: list[dict[str, Any]]) -> None:
    """Gold holds what the source holds, and bronze each record once."""
    once = "SELECT count(*) AS records, count(DISTINCT _offset) AS offsets FROM bronze.t"
    shown = answer(
        options, f"SELECT id, n, text, b.* FROM gold.t CROSS JOIN ({once}) b ORDER BY id"
    )
    counts = {"records": len(records), "offsets": len(records)}
    assert shown == [row | counts for row in truth(records)]


def commits(disk: Path, table: str) -> int:
    return len(list((disk / "lake" / table / "_delta_log").glob("*.json")))


def said_while(disk: Path, options: list[str], table: str, spoil: Callable[[Path], None]) -> str:
    """What a run said of which the disk failed as soon as something was committed to a table."""
    before = commits(disk, table)
    run = subprocess.Popen(
        command("run", options), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    while commits(disk, table) == before and run.poll() is None:
        time.sleep(0.001)
    while run.poll() is None:
        spoil(disk)
        time.sleep(0.01)
    said, _ = run.communicate()
    assert run.returncode == 1, said
    assert "Traceback" not in said, said
    return said


@pytest.mark.slow
def test_no_run_begins_on_such_a_disk_but_what_is_there_can_be_read(disk: Path) -> None:
    options, records = lake(disk, 1), list(events(1, PART))
    drop(disk, 1, records)
    fill(disk)
    full = subprocess.run(command("run", options), capture_output=True, text=True, check=False)
    empty(disk)
    remount(disk, "ro")
    locked = subprocess.run(command("run", options), capture_output=True, text=True, check=False)
    remount(disk, "rw")
    assert (full.returncode, locked.returncode) == (1, 1)
    assert "cannot be written" in full.stderr and "free some space" in full.stderr, full.stderr
    assert "found:    Read-only file system" in locked.stderr, locked.stderr
    assert "make it writable and run again; nothing is lost" in locked.stderr, locked.stderr
    succeeds("run", options)
    remount(disk, "ro")
    check(options, records)
    again = subprocess.run(
        command("maintain", options), capture_output=True, text=True, check=False
    )
    assert again.returncode == 1 and READ_ONLY in again.stderr, again.stderr


@pytest.mark.parametrize(
    ("spoil", "mend", "way_out"),
    [
        pytest.param(fill, empty, FULL, id="full", marks=pytest.mark.slow),
        pytest.param(lock, unlock, READ_ONLY, id="read-only", marks=pytest.mark.slow),
    ],
)
def test_a_disk_that_fails_in_the_midst(
    disk: Path, spoil: Callable[[Path], None], mend: Callable[[Path], None], way_out: str
) -> None:
    options, records = lake(disk, 1), list(events(2, PART * len(TABLES)))
    for number, table in enumerate(TABLES):
        drop(disk, number, records[number * PART : (number + 1) * PART])
        said = said_while(disk, options, table, spoil)
        assert way_out in said, said
        mend(disk)
    succeeds("run", options)
    check(options, records)
    succeeds("verify", options, "t")


@pytest.mark.slow
def test_a_run_that_goes_on_does_so_when_there_is_space_again(disk: Path) -> None:
    options, records = lake(disk, 1), list(events(3, 2 * PART))
    said = disk.parent / "said"
    drop(disk, 1, records[:PART])
    more = ["--continuous", "--interval", "1s", "--verbose"]
    with said.open("w") as file:
        run = subprocess.Popen(command("run", options, *more), stdout=file, stderr=file)
    try:
        wait_for(lambda: "silver" in said.read_text(), 120, "the first part")
        drop(disk, 2, records[PART:])
        fill(disk)
        wait_for(lambda: FULL in said.read_text(), 120, "a full disk")
        empty(disk)
        told = len(said.read_text())
        wait_for(lambda: "silver" in said.read_text()[told:], 120, "the second part")
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 0, said.read_text()
    finally:
        run.kill()
    check(options, records)


@pytest.mark.slow
@needs_postgres
def test_a_capture_ends_on_a_full_disk_and_goes_on_when_there_is_space_again(
    disk: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server, conf = postgres.start("full-disk", content=None), project(tmp_path)
    request.addfinalizer(server.stop)
    server.execute("CREATE TABLE t (id int PRIMARY KEY, text text)")
    ends(conf, tmp_path, "init", "--source", server.url, "--capture")
    code, _ = captured_once(conf, disk)
    assert code == 0
    fill(disk)
    server.execute("INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, 2000) g")
    code, said = captured_once(conf, disk)
    assert code == 1 and FULL in said, said
    empty(disk)
    code, said = captured_once(conf, disk)
    assert code == 0, said
    assert [row["id"] for row in rows_of(disk, "t")] == [*range(1, 2001)]


def captured_once(conf: Path, disk: Path) -> tuple[int, str]:
    """How `capture --once` ends, and what it says, in one line."""
    capture: list[str | Path] = [sys.executable, "-m", "lakehouse", "capture", "--once"]
    log, env = conf.parent / f"{time.monotonic_ns()}.log", {"PYTHONPATH": str(ROOT)}
    capture += ["--conf", conf, "--root", disk]
    process = parts.start(capture, log, env=env)
    return process.popen.wait(120), " ".join(process.said().split())
