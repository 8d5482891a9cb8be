"""Handles Ctrl-C at any moment: a short message, and no traceback of the interrupted work."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from lakehouse.errors import Interrupted

PAUSE_SECONDS = 0.05

_pressed = threading.Event()
_cancel: list[Callable[[], object]] = []


def leave_at_once() -> None:
    """Lets Ctrl-C end the process at once, as long as no work has begun.

    Does nothing if Ctrl-C is ignored or has another handler, or outside of the main thread.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with suppress(ValueError):
            signal.signal(signal.SIGINT, _exit_at_once)
            sys.unraisablehook = _press_again


def raise_again() -> None:
    """Lets Ctrl-C raise KeyboardInterrupt again after `leave_at_once`."""
    if signal.getsignal(signal.SIGINT) is _exit_at_once:
        signal.signal(signal.SIGINT, _raise_interrupt)


def cancel_beside(cancel: Callable[[], object]) -> None:
    """Lets Ctrl-C raise KeyboardInterrupt at once, and cancel Spark's jobs in another thread.

    Spark's own handler calls Java from within the interrupted code, which may be another call of
    Java: that ends in tracebacks. A thread has its own connection to Java.
    """
    _cancel[:] = [cancel]
    with suppress(ValueError):
        signal.signal(signal.SIGINT, _raise_interrupt)


def was_pressed() -> bool:
    """Whether Ctrl-C was pressed, even if another failure hides the interrupt."""
    return _pressed.is_set()


def stop_if_pressed() -> None:
    """Stops before more work begins, or before an interrupted step counts as a failure.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    if was_pressed():
        raise KeyboardInterrupt


def go_on() -> None:
    """Resets the state after Ctrl-C was handled, before other work."""
    _pressed.clear()
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
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            signal.signal(signal.SIGINT, lambda _, __: os._exit(code))


def _raise_interrupt(_: int, __: FrameType | None) -> None:
    """Raises KeyboardInterrupt without further logging: py4j would log its interrupted call."""
    _pressed.set()
    logging.disable()
    for cancel in _cancel:
        threading.Thread(target=_call_quietly, args=[cancel], daemon=True).start()
    raise KeyboardInterrupt


def _call_quietly(cancel: Callable[[], object]) -> None:
    with suppress(BaseException):
        cancel()


def _press_again(unraisable: "sys.UnraisableHookArgs") -> None:
    """Repeats Ctrl-C, as Python drops exceptions raised while an object is deleted."""
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)
        return
    again = threading.Timer(PAUSE_SECONDS, os.kill, [os.getpid(), signal.SIGINT])
    again.daemon = True
    again.start()


def _exit_at_once(_: int, __: FrameType | None) -> None:
    """Exits without an exception, which an import in progress might turn into another one."""
    os.write(2, f"error: {Interrupted(None)}\n".encode())
    os._exit(Interrupted.exit_code)
