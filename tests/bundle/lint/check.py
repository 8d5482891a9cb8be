"""Finds in a bundle what neither the typed models nor `databricks bundle validate` find."""

from itertools import chain
from pathlib import Path

from tests.bundle.lint import (
    deploying,
    files,
    guarding,
    jobs,
    references,
    tasks,
    timing,
    workflows,
    writers,
)
from tests.bundle.lint.finding import Finding
from tests.bundle.lint.reading import read, targets

RULES = (
    *deploying.RULES,
    *files.RULES,
    *guarding.RULES,
    *jobs.RULES,
    *references.RULES,
    *tasks.RULES,
    *timing.RULES,
    *workflows.RULES,
    *writers.RULES,
)


def lint(folder: Path) -> list[Finding]:
    """All findings of all rules for all targets, each once."""
    bundles = [read(folder, target) for target in targets(folder)]
    found = chain.from_iterable(rule(bundle) for bundle in bundles for rule in RULES)
    return sorted(set(found))
