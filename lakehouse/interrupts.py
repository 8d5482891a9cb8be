"""Handles Ctrl-C at any moment: a short message, and no traceback of the interrupted work.

One handler serves the whole process. Before work begins Ctrl-C ends the process at once, while it
goes on it raises KeyboardInterrupt, and afterwards it ends the process silently.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType

from lakehouse.errors import Interrupted

PAUSE_SECONDS = 0.05


@dataclass
class _InterruptedWork:
    """The work of this process, as far as Ctrl-C asks."""

    has_begun: bool = False
    exit_code: int | None = None
    cancel: Callable[[], object] = bool
    pressed: threading.Event = field(default_factory=threading.Event)


_WORK = _InterruptedWork()


def leave_at_once() -> None:
    """Lets Ctrl-C end the process at once, as long as no work has begun.

    Does nothing if Ctrl-C is ignored or has another handler, or outside of the main thread.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with suppress(ValueError):
            signal.signal(signal.SIGINT, _handle_interrupt)
            sys.unraisablehook = _press_again


def raise_again() -> None:
    """Lets Ctrl-C raise KeyboardInterrupt after `leave_at_once`."""
    _WORK.has_begun, _WORK.exit_code = True, None


def cancel_beside(cancel: Callable[[], object]) -> None:
    """Lets Ctrl-C raise KeyboardInterrupt at once, and cancel Spark's jobs in another thread.

    Spark's own handler calls Java from within the interrupted code, which may be another call of
    Java: that ends in tracebacks. A thread has its own connection to Java.
    """
    _WORK.has_begun, _WORK.cancel, _WORK.exit_code = True, cancel, None
    with suppress(ValueError):
        signal.signal(signal.SIGINT, _handle_interrupt)


def was_pressed() -> bool:
    """Whether Ctrl-C was pressed, even if another failure hides the interrupt."""
    return _WORK.pressed.is_set()


def stop_if_pressed() -> None:
    """Stops before more work begins, or before an interrupted step counts as a failure.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    if was_pressed():
        raise KeyboardInterrupt


def go_on() -> None:
    """Resets the state after Ctrl-C was handled, before other work."""
    _WORK.pressed.clear()
    logging.disable(logging.NOTSET)


@contextmanager
def exit_silently() -> Iterator[None]:
    """After the block, Ctrl-C ends the process silently with its exit code.

    Otherwise threads that still work, and Python's own shutdown, would print tracebacks.
    """
    code = 0
    try:
        yield
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else bool(left.code)
        raise
    finally:
        _WORK.exit_code = code
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            signal.signal(signal.SIGINT, _handle_interrupt)


def _handle_interrupt(_: int, __: FrameType | None) -> None:
    """Exits without an exception before work, as an import might turn one into another failure.

    While work goes on nothing more is logged: py4j would log its interrupted call.
    """
    if _WORK.exit_code is not None:
        os._exit(_WORK.exit_code)
    if not _WORK.has_begun:
        os.write(2, f"error: {Interrupted(None)}\n".encode())
        os._exit(Interrupted.exit_code)
    _WORK.pressed.set()
    logging.disable()
    threading.Thread(target=_cancel_quietly, daemon=True).start()
    raise KeyboardInterrupt


def _cancel_quietly() -> None:
    with suppress(BaseException):
        _WORK.cancel()


def _press_again(unraisable: "sys.UnraisableHookArgs") -> None:
    """Repeats Ctrl-C, as Python drops exceptions raised while an object is deleted."""
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)
        return
    again = threading.Timer(PAUSE_SECONDS, os.kill, [os.getpid(), signal.SIGINT])
    again.daemon = True
    again.start()
