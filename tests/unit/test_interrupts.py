"""Ctrl-C while Spark works: it raises at once, and Spark's jobs are cancelled beside."""

import signal
import threading
from types import FrameType

import pytest

from cdc_lakehouse.cli.interrupts import cancel_beside


def test_jobs_are_cancelled_in_a_thread_of_their_own_and_its_failure_is_not_shown(
    capfd: pytest.CaptureFixture[str],
) -> None:
    told, by = threading.Event(), list[threading.Thread]()

    def of_spark(number: int, frame: FrameType | None) -> None:
        by.append(threading.current_thread())
        told.set()
        raise RuntimeError("reentrant call")

    before = signal.signal(signal.SIGINT, of_spark)
    try:
        cancel_beside()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert told.wait(10)
        by[0].join(10)
    finally:
        signal.signal(signal.SIGINT, before)
    assert by[0] is not threading.main_thread()
    assert capfd.readouterr().err == ""


def test_pythons_own_handler_stays() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        cancel_beside()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
