"""How a model says that its keys, each fine alone, make no sense together."""

from collections.abc import Sequence
from typing import NamedTuple

from pydantic_core import PydanticCustomError

KIND = "contradiction"


class Contradiction(NamedTuple):
    """Dotted key within the file, what stands there, what would be right, what to do."""

    key: str
    found: str
    expected: str
    action: str


def refuse(contradictions: Sequence[Contradiction]) -> None:
    """Raise all of them as one validation error whose context carries them; nothing when empty."""
    if contradictions:
        lines = "; ".join(f"{c.key}: {c.found}, expected {c.expected}" for c in contradictions)
        context = {"lines": lines, "contradictions": list(contradictions)}
        raise PydanticCustomError(KIND, "{lines}", context)
