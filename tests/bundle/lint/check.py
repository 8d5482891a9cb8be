"""Finds in a bundle what neither the typed models nor `databricks bundle validate` find."""

from itertools import chain
from pathlib import Path

from tests.bundle.lint import deploying, guarding, jobs, references, workflows, writers
from tests.bundle.lint.finding import RULES, Finding
from tests.bundle.lint.reading import read, targets

ROOMS = (deploying, guarding, jobs, references, workflows, writers)
"""The modules whose import registers rules."""


def lint(folder: Path) -> list[Finding]:
    """All findings of all rules for all targets, each once."""
    bundles = [read(folder, target) for target in targets(folder)]
    found = chain.from_iterable(rule(bundle) for bundle in bundles for rule in RULES)
    return sorted(set(found))
