"""A file of expectations that are to be tried: a list, or a mapping with `expectations`."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from lakehouse.config.table import Expectation, Strict, Table
from lakehouse.config.unpacking import Check, refuse_lines, unpack
from lakehouse.config.yaml_files import read_yaml


class Rules(Strict):
    """Expectations, and the table that they are meant for."""

    table: str | None = None
    expectations: list[Expectation] = Field(min_length=1)


def read_rules(file: Path) -> Rules:
    """The rules of a file.

    Raises:
        ConfigurationError: it cannot be read.
        ManyConfigurationErrors: everything that is wrong in it.
    """
    document = read_yaml(file)
    given = {"expectations": document} if isinstance(document, list) else document
    return unpack(Rules, given, str(file))


def with_rules(table: Table, rules: Rules, file: Path, checks: Sequence[Check]) -> Table:
    """The table with these expectations in place of its own.

    Raises:
        ManyConfigurationErrors: what the checks find wrong with them.
    """
    other = table.model_copy(update={"expectations": rules.expectations})
    refuse_lines(str(file), [line for check in checks for line in check(other)])
    return other
