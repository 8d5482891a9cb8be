import pytest
from silver.written import CLASSES, confirmed

NONE = dict.fromkeys(CLASSES, 0)


def test_what_was_seen_is_what_as_many_written_rows_are() -> None:
    seen = NONE | {"inserted": 1, "updated": 2, "rows": 3}
    result = {"num_updated_rows": 2, "num_inserted_rows": 1}
    assert confirmed(seen, result) == {"inserted": 1, "updated": 2}


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param({"updated": 2, "rows": 2}, id="computed twice"),
        pytest.param({"updated": 1, "rows": 2}, id="another class"),
        pytest.param({"updated": 0, "rows": 0}, id="not seen"),
    ],
)
def test_other_numbers_tell_nothing(seen: dict[str, int]) -> None:
    assert confirmed(NONE | seen, {"num_updated_rows": 1, "num_inserted_rows": 0}) is None
