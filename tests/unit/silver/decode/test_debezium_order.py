"""Where a record stands: sequences by connector, snapshots, times, transactions."""

from tests.helpers.debezium_records import (
    discovered,
    event,
    plain,
    table,
)

FLINK = {"db": "shop", "table": "t"}


def test_markers_show_nothing_of_the_order() -> None:
    lines = [{"ts_ms": 1}, {"status": "END", "id": "1:2"}, event("m"), event("x")]

    assert discovered(table(), plain(*lines))[0].order is None
    assert discovered(table(), plain(*lines, event("t", source=FLINK)))[0].order == "arrival"
