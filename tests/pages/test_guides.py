"""Guides whose commands are run as their reader types them."""

import pytest

from tests.pages.dialogue import follow
from tests.pages.shell import ROOT, Shell

GUIDES = ROOT / "docs" / "guides"


@pytest.mark.slow
def test_a_copied_lake_goes_on_and_is_equal(shell: Shell) -> None:
    follow(GUIDES / "back-up-and-move.md", shell)
