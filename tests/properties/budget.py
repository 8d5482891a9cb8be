"""How long a property is tried: LAKEHOUSE_EXAMPLES says how many other examples than the usual."""

import os

from hypothesis import HealthCheck, settings

GIVEN = os.environ.get("LAKEHOUSE_EXAMPLES")


def budget(examples: int) -> settings:
    """So many examples, the same ones each time, unless the environment asks for fresh ones."""
    return settings(
        max_examples=int(GIVEN or examples),
        deadline=None,
        derandomize=GIVEN is None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
