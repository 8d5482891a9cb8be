"""A capture as a process beside a run, started again where it fails."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cdc_lakehouse.cli.options import Chosen, options_of
from cdc_lakehouse.terminal.console import warn
from lakehouse.errors import ConfigurationError

PAUSE_SECONDS, PATIENCE = 30.0, 60.0


@contextmanager
def capture_beside(chosen: Chosen, continuous: bool) -> Iterator[None]:
    """Within, `lakehouse capture` works on the same target; at the end it is stopped.

    It has a process of its own, so that neither can take memory or Java from the other. Its
    configuration and the database are checked before.

    Raises:
        LakehouseError: the database cannot be captured as it is, or --continuous is missing.
    """
    from cdc_lakehouse.capture.session import open_capture

    if not continuous:
        action = "add --continuous, or call `lakehouse capture --once` before"
        raise ConfigurationError("command line", "--capture", "one round", "--continuous", action)
    open_capture(chosen).check()
    command = [sys.executable, "-m", "cdc_lakehouse", "capture", *options_of(chosen)]
    ended, children = threading.Event(), [subprocess.Popen(command)]

    def watch() -> None:
        while code := children[-1].wait():
            if ended.is_set():
                return
            warn(f"capture has ended with {code}; it is started again in {PAUSE_SECONDS:.0f} s")
            if ended.wait(PAUSE_SECONDS):
                return
            children.append(subprocess.Popen(command))

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        children[-1].send_signal(signal.SIGTERM)
        try:
            children[-1].wait(PATIENCE)
        except subprocess.TimeoutExpired:
            children[-1].kill()
        watching.join()
