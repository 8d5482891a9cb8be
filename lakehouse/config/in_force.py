"""Options that are part of the format but not in force yet: refused, never ignored."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from lakehouse.config.table import Table
from lakehouse.errors import Problem


class NotYet(NamedTuple):
    """A dotted key, whether a table uses it, and what to do instead."""

    key: str
    used: Callable[[Table], bool]
    action: str


NOT_IN_FORCE = (
    NotYet(
        "sources of several formats",
        lambda table: len({feed.format for feed in table.feeds}) > 1,
        "let all sources of the table have one format",
    ),
)


def not_in_force(table: Table) -> Iterator[Problem]:
    """One problem per option that the table uses and nothing would obey."""
    for option in NOT_IN_FORCE:
        if option.used(table):
            expected = "an option that is in force in this version"
            yield Problem(option.key, "an option that is not in force yet", expected, option.action)
