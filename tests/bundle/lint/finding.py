"""What the bundle's lint says, and what every rule of it is."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.bundle.lint.reading import Bundle


class Finding(NamedTuple):
    """One fault: the rule's name, the resource (and task) it is in, and what is wrong."""

    rule: str
    place: str
    message: str


Rule = Callable[[Bundle], Iterator[Finding]]
