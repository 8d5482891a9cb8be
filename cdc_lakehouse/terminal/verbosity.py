"""How much the command line says, and how: set by `--quiet`, `--verbose` and `--log`."""

import os
from enum import IntEnum
from typing import Literal

Form = Literal["text", "json"]


class Level(IntEnum):
    """Quiet prints answers, warnings and errors only; verbose adds a line per table and layer."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


_level = [Level.NORMAL]


def set_level(quiet: bool, verbose: bool) -> None:
    """Set the level; `verbose` wins over `quiet`."""
    _level[0] = Level.VERBOSE if verbose else Level.QUIET if quiet else Level.NORMAL


def current_level() -> Level:
    """The level of this process."""
    return _level[0]


_form: list[str] = []


def set_form(form: Form) -> None:
    """Set the form of everything that is no answer."""
    _form[:] = [form]


def is_json() -> bool:
    """Whether news, progress, warnings and errors are JSON objects, one a line."""
    return (_form or [os.environ.get("LAKEHOUSE_LOG", "text")])[0] == "json"
