import pytest

from lakehouse.config.in_force import NOT_IN_FORCE, not_in_force
from lakehouse.config.table import Table


def plain(**keys: object) -> Table:
    source = {"format": "debezium", "path": "shop"}
    return Table.model_validate({"table": "t", "keys": ["id"], "source": source} | keys)


def test_a_plain_table_uses_nothing_that_is_not_in_force() -> None:
    assert list(not_in_force(plain())) == []


@pytest.mark.parametrize("option", NOT_IN_FORCE, ids=lambda option: str(option.key))
def test_every_option_not_in_force_says_what_to_do(option: object) -> None:
    assert getattr(option, "action", "")
