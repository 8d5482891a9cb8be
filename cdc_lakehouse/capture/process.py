"""A capture as a process beside a run, started again where it fails."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cdc_lakehouse.cli.options import Chosen, options_of
from cdc_lakehouse.terminal.console import warn
from lakehouse.errors import ConfigurationError

GLANCE_SECONDS, PATIENCE, LONGEST_PAUSE = 0.2, 30.0, 60.0


@contextmanager
def capture_beside(chosen: Chosen, continuous: bool) -> Iterator[None]:
    """Within, `lakehouse capture` works on the same target; at the end it is stopped.

    It has a process of its own, so that neither can take memory or Java from the other. Its
    configuration and the database are checked before.

    Raises:
        LakehouseError: the database cannot be captured as it is, or --continuous is missing.
    """
    from cdc_lakehouse.capture.session import BESIDE, open_capture

    if not continuous:
        action = "add --continuous, or call `lakehouse capture --once` before"
        raise ConfigurationError("command line", "--capture", "one round", "--continuous", action)
    open_capture(chosen).check()
    command = [sys.executable, "-m", "cdc_lakehouse", "capture", *options_of(chosen)]
    environment, ended = os.environ | {BESIDE: str(os.getpid())}, threading.Event()

    def keep_up() -> None:
        pause = 1.0
        while not ended.wait(0):
            child = subprocess.Popen(command, env=environment)
            while child.poll() is None and not ended.wait(GLANCE_SECONDS):
                pass
            if ended.is_set() or child.returncode == 0:
                child.terminate()
                try:
                    child.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    child.kill()
                return
            pause = min(2 * pause, LONGEST_PAUSE)
            warn(f"capture has ended with {child.returncode}; it is started again in {pause:.0f} s")
            ended.wait(pause)

    working = threading.Thread(target=keep_up, daemon=True)
    working.start()
    try:
        yield
    finally:
        ended.set()
        working.join()
