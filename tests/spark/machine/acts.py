"""What people do to a lake: the acts by name, each with how often it is chosen."""

import random
from collections.abc import Callable
from typing import TypeVar

from tests.spark.machine.world import Played, World

OwnAct = Callable[[World, Played, random.Random], None]
SharedAct = Callable[[World, random.Random], None]
SomeAct = TypeVar("SomeAct", OwnAct, SharedAct)

OWN: dict[str, tuple[int, OwnAct]] = {}
"""Acts on one table."""
SHARED: dict[str, tuple[int, SharedAct]] = {}
"""Acts on the whole lake."""
OF_GROUP: dict[str, tuple[int, SharedAct]] = {}
"""Acts on the consistency group of a lake that has one."""


def own(often: int) -> Callable[[OwnAct], OwnAct]:
    """Registers an act on one table."""
    return _register(OWN, often)


def shared(often: int) -> Callable[[SharedAct], SharedAct]:
    """Registers an act on the whole lake."""
    return _register(SHARED, often)


def of_group(often: int) -> Callable[[SharedAct], SharedAct]:
    """Registers an act on a consistency group."""
    return _register(OF_GROUP, often)


def _register(acts: dict[str, tuple[int, SomeAct]], often: int) -> Callable[[SomeAct], SomeAct]:
    def register(function: SomeAct) -> SomeAct:
        acts[function.__name__] = often, function
        return function

    return register
