"""Ctrl-C: it raises at once, Spark's jobs are cancelled beside, and nothing prints a traceback."""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from cdc_lakehouse.cli.front import handle_interrupt
from cdc_lakehouse.cli.work.rounds import Round, try_layer
from lakehouse.config.target import Target
from lakehouse.errors import Interrupted
from lakehouse.interrupts import cancel_beside, exit_silently, go_on, raise_again, was_pressed
from lakehouse.storage.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)
    cancel_beside(lambda: None)
    signal.signal(signal.SIGINT, before)
    go_on()


def test_jobs_are_cancelled_in_a_thread_of_their_own_and_its_failure_is_not_shown(
    capfd: pytest.CaptureFixture[str],
) -> None:
    by, told = list[threading.Thread](), threading.Event()

    def cancel() -> None:
        by.append(threading.current_thread())
        told.set()
        raise RuntimeError("reentrant call")

    cancel_beside(cancel)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert told.wait(10)
    by[0].join(10)
    assert by[0] is not threading.main_thread()
    logging.exception("where the question to Java was broken off")
    assert capfd.readouterr().err == ""


def test_work_after_the_end_of_a_command_is_interrupted_as_any_other() -> None:
    with exit_silently():
        pass
    cancel_beside(lambda: None)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_pythons_own_handler_stays() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    raise_again()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def broken_off_by_a_failure() -> None:
    """As Spark's own way of ending a job does, whose failure comes in place of the interrupt."""
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        raise RuntimeError("job 3 was cancelled")


def test_a_failure_that_comes_of_ctrl_c_does_not_hide_it() -> None:
    cancel_beside(lambda: None)
    with pytest.raises(Interrupted, match="Ctrl-C"):
        handle_interrupt(broken_off_by_a_failure)()
    go_on()
    assert not was_pressed()


def test_no_further_layer_is_begun_after_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    cancel_beside(lambda: None)
    told = "cdc_lakehouse.cli.work.rounds.do_layer"
    monkeypatch.setattr(told, lambda *_: broken_off_by_a_failure())
    given = Round(Lake(cast("SparkSession", None), Target(root="/r")))
    with pytest.raises(KeyboardInterrupt):
        try_layer(given, [], "silver", str)


ENDS = {
    "in a finalizer": """
class OfJava:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
def work():
    it = OfJava()
    del it
    time.sleep(30)
""",
    "while a thread still works": """
def work():
    threading.Thread(target=time.sleep, args=[30]).start()
    threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
    signal.raise_signal(signal.SIGINT)
""",
}
RUN = """
import os, signal, threading, time
from cdc_lakehouse.cli.front import handle_interrupt, make_application, run_command_line
from lakehouse.interrupts import exit_silently, leave_at_once
signal.signal(signal.SIGINT, signal.default_int_handler)
leave_at_once()
{0}
app = make_application("x")
app.command()(handle_interrupt(work))
with exit_silently():
    run_command_line(app, [])
"""


@pytest.mark.parametrize("work", ENDS.values(), ids=list(ENDS))
def test_ctrl_c_at_an_odd_moment_is_answered_as_at_any_other(work: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", RUN.format(work)], capture_output=True, text=True, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False, timeout=25,
    )  # fmt: skip
    assert ran.returncode == 130
    lines = ran.stderr.splitlines()
    assert [line.split()[0] for line in lines] == ["error:", "found:", "do:"], ran.stderr
