"""How much the command line says: one level per process, set by `--quiet` and `--verbose`."""

from enum import IntEnum


class Level(IntEnum):
    """Quiet prints answers, warnings and errors only; verbose adds a line per table and layer."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


_level = [Level.NORMAL]


def set_level(quiet: bool, verbose: bool) -> None:
    """Set the level; `verbose` wins over `quiet`."""
    _level[0] = Level.VERBOSE if verbose else Level.QUIET if quiet else Level.NORMAL


def level() -> Level:
    """The level of this process."""
    return _level[0]
