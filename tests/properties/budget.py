"""How long a property is tried: LAKEHOUSE_EXAMPLES says how many other examples than the usual."""

import os

from hypothesis import HealthCheck, settings

GIVEN = os.environ.get("LAKEHOUSE_EXAMPLES")


def count_examples(usual: int) -> int:
    """So many examples of a test, unless the environment asks for another number."""
    return int(GIVEN or usual)


def budget(examples: int) -> settings:
    """So many examples, the same ones each time, unless the environment asks for fresh ones."""
    return settings(
        max_examples=count_examples(examples),
        deadline=None,
        derandomize=GIVEN is None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
