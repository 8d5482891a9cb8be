from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def project() -> Path:
    """The project's own folder, which is the bundle's."""
    return PROJECT
