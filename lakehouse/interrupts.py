"""Ctrl-C: a short answer at any moment, and no traceback of what it broke off."""

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
    """From now on Ctrl-C ends the process at once, which has nothing to bring to an end yet.

    Nothing changes where Ctrl-C is ignored or another's already, nor outside of the main thread.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with suppress(ValueError):
            signal.signal(signal.SIGINT, _leave)
            sys.unraisablehook = _press_again


def raise_again() -> None:
    """From now on Ctrl-C is a KeyboardInterrupt again, if `leave_at_once` had changed that."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, _interrupt)


def cancel_beside(cancel: Callable[[], object]) -> None:
    """From now on Ctrl-C is a KeyboardInterrupt at once, and `cancel` ends Spark's jobs meanwhile.

    Spark's own handler asks Java to cancel them from within whatever Ctrl-C broke off, which may be
    another question to Java: that ends in tracebacks. A thread has a connection of its own.
    """
    _cancel[:] = [cancel]
    with suppress(ValueError):
        signal.signal(signal.SIGINT, _interrupt)


def was_pressed() -> bool:
    """Whether Ctrl-C broke off what goes on, though another failure may have hidden that."""
    return _pressed.is_set()


def stop_if_pressed() -> None:
    """Begin nothing more, nor take for a failure what Ctrl-C broke off.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    if was_pressed():
        raise KeyboardInterrupt


def go_on() -> None:
    """Ctrl-C has been answered, and other work follows."""
    _pressed.clear()
    logging.disable(logging.NOTSET)


@contextmanager
def ending() -> Iterator[None]:
    """Once what is done within has ended, Ctrl-C ends the process silently, with its exit code.

    Threads that are still at work, and Python's own end, would answer with tracebacks.
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


def _interrupt(_: int, __: FrameType | None) -> None:
    """Nothing is logged from then on: py4j would log where the question to Java was broken off."""
    _pressed.set()
    logging.disable()
    for cancel in _cancel:
        threading.Thread(target=_quietly, args=[cancel], daemon=True).start()
    raise KeyboardInterrupt


def _quietly(cancel: Callable[[], object]) -> None:
    with suppress(BaseException):
        cancel()


def _press_again(unraisable: "sys.UnraisableHookArgs") -> None:
    """Python drops what is raised while an object goes, such as a reference to one of Java's."""
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)
        return
    again = threading.Timer(PAUSE_SECONDS, os.kill, [os.getpid(), signal.SIGINT])
    again.daemon = True
    again.start()


def _leave(_: int, __: FrameType | None) -> None:
    """An exception could be raised in the midst of an import, which may make another one of it."""
    os.write(2, f"error: {Interrupted(None)}\n".encode())
    os._exit(Interrupted.exit_code)
