from typing import Any

import pytest

from silver.decode.columns import known_columns
from silver.decode.protocols.ydb import YdbDiscovery
from tests.helpers.builders import table
from tests.helpers.flat_records import record

WRITES: dict[str, Any] = {"key": [1], "update": {"qty": 5}, "ts": [1, 1]}


def test_discoveries_of_two_tasks_know_the_mode() -> None:
    typed = table("ydb", ["id"], columns={"id": "int", "qty": "int"})
    one, other = (YdbDiscovery(typed, known_columns(typed, {})) for _ in range(2))
    other.look(record(WRITES), "0")
    one.merge(other)

    assert one.settle()[0].feed_mode == "UPDATES"


@pytest.mark.parametrize(("format", "keys"), [("ydb", {"a", "b"}), ("rows", {"b"})])
def test_which_keys_may_be_null(format: str, keys: set[str]) -> None:
    columns = {"a": "int", "b": {"type": "int", "nullable": True}, "c": "int"}
    more = {"sequence_by": "c"} if format == "rows" else {}
    assert table(format, ["a", "b"], columns=columns, **more).nullable_keys == keys
