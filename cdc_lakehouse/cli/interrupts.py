"""Ctrl-C while a command is still being loaded: said in a line, and no traceback of its imports."""

import os
import signal
import threading
from contextlib import suppress
from types import FrameType

from lakehouse.errors import Interrupted


def leave_at_once() -> None:
    """From now on Ctrl-C ends the process at once, which has nothing to bring to an end yet.

    Nothing changes where Ctrl-C is ignored or another's already, nor outside of the main thread.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with suppress(ValueError):
            signal.signal(signal.SIGINT, _leave)


def raise_again() -> None:
    """From now on Ctrl-C is a KeyboardInterrupt again, if `leave_at_once` had changed that."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def cancel_beside() -> None:
    """From now on Ctrl-C is a KeyboardInterrupt at once, and Spark's jobs are cancelled meanwhile.

    Spark's own handler asks Java to cancel them from within whatever it interrupts, which may be
    another question to Java: that ends in tracebacks. A thread has a connection of its own.
    """
    cancel = signal.getsignal(signal.SIGINT)
    if not callable(cancel) or cancel in (signal.default_int_handler, _leave):
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        def quietly() -> None:
            with suppress(BaseException):
                cancel(number, frame)

        threading.Thread(target=quietly, daemon=True).start()
        raise KeyboardInterrupt

    with suppress(ValueError):
        signal.signal(signal.SIGINT, interrupt)


def _leave(_: int, __: FrameType | None) -> None:
    """An exception could be raised in the midst of an import, which may make another one of it."""
    os.write(2, f"error: {Interrupted(None)}\n".encode())
    os._exit(Interrupted.exit_code)
