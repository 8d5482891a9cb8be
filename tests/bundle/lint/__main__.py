"""Prints the findings of a bundle."""

import sys
from pathlib import Path

from tests.bundle.lint.check import lint

findings = lint(Path(sys.argv[1]))
for finding in findings:
    print(*finding, sep="  ")
sys.exit(bool(findings))
