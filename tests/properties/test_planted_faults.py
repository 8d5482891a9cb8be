"""Faults that are planted in decode and fold, one at a time: streams of the sources find each."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from silver.contract import NONE
from silver.decode.debezium import slices
from silver.decode.debezium.decoder import DebeziumDecoder
from silver.decode.debezium.events import connectors, envelope, flattened, order, source_log
from silver.decode.debezium.events.opening import Opened, Opener
from silver.decode.debezium.events.placeholders import Placeholders
from silver.decode.protocols import bigquery
from silver.decode.protocols.reader import FlatRowReader
from silver.decode.values.sequences import sequence_of
from silver.fold.arrow_values import ContentComparison
from silver.fold.current import CurrentFold
from silver.fold.law import KeyFold
from silver.fold.plain import rows as plain_rows
from silver.fold.rules import Cutoff, FoldRules
from silver.fold.versions import HistoryFold
from tests.helpers.flat_sources import STREAMS
from tests.properties.test_streams import check_stream

pytestmark = pytest.mark.slow

MOST_STREAMS = 5_000
Plant = Callable[[pytest.MonkeyPatch], None]


def replacing(target: object, name: str, made: Callable[[Any], Any]) -> Plant:
    """A fault in the place of what `target` has under a name, made of that."""
    return lambda patch: patch.setattr(target, name, made(getattr(target, name)))


def without(op: str) -> Plant:
    """Events of an operation say nothing."""
    return lambda patch: patch.setitem(envelope._OPERATIONS, op, NONE)


def _first_section(place: Any) -> Any:
    def found(*given: Any) -> Any:
        sequence, *rest = place(*given)
        return (sequence and sequence.split("/")[0], *rest)

    return found


def _by_flag(place: Any) -> Any:
    def found(op: object, source: Any, *rest: Any) -> Any:
        is_read = source is not None and source.snapshot in ("true", "last")
        return place("r" if is_read else op, source, *rest)

    return found


def _without_tombstones(opened: Any) -> Any:
    def found(self: Opener, record: Any) -> Any:
        return Opened(None, None) if record.raw is None else opened(self, record)

    return found


def _told_or_time(_: Any) -> Any:
    return lambda source, told, time, *_: told if source and told else sequence_of(0, time or 0)


def _not_absent(read: Any) -> Any:
    def found(self: DebeziumDecoder, row: Any, plan: Any, change: Any) -> Any:
        given = read(self, row, plan, change)
        change.absent = None
        return given

    return found


def _undisturbed(set_values: Any) -> Any:
    def found(self: HistoryFold, row: Any) -> None:
        set_values(self, row)
        self._next_may_differ = False

    return found


FAULTS: dict[str, Plant] = {
    "full snapshots are not told": replacing(order, "_snapshot_id", lambda _: lambda *_: None),
    "no snapshot has a last row": replacing(order, "_LAST_ROWS", lambda _: ()),
    "the flag tells what was read": replacing(order, "_find_place", _by_flag),
    "a position has one section": replacing(order, "_find_place", _first_section),
    "times are whole tens of seconds": replacing(
        order, "to_microseconds", lambda own: lambda *t: own(*t) // 10**7 * 10**7
    ),
    "truncates say nothing": without("t"),
    "deletes say nothing": without("d"),
    "rows that were read say nothing": without("r"),
    "placeholders are values": replacing(Placeholders, "match", lambda _: lambda *_: False),
    "a value that is left out is null": replacing(
        DebeziumDecoder, "_without_placeholders", _not_absent
    ),
    "slices take what needs thought": replacing(
        slices.SliceReader, "_find_odd", lambda _: lambda *_: set[int]()
    ),
    "rewritten deletes are rows": replacing(flattened, "_TRUE", lambda _: ()),
    "tombstones of flattened events say nothing": replacing(
        Opener, "_open_flattened", _without_tombstones
    ),
    "tombstones are ordered by time": replacing(flattened, "_choose_sequence", _told_or_time),
    "files of the log have no number": replacing(connectors, "_last_number", lambda _: lambda _: 1),
    "a failover goes unseen": replacing(
        source_log, "follow_segment", lambda own: lambda *given: own(*given)._replace(restart=None)
    ),
    "the stored row comes first": replacing(
        CurrentFold, "_take_stored", lambda own: lambda self, _: own(self, None)
    ),
    "columns of their own order are forgotten": replacing(
        CurrentFold, "_find_column_orders", lambda _: lambda _: None
    ),
    "a deleted row leaves its values": replacing(KeyFold, "_forget", lambda _: lambda _: None),
    "rows from before a cut-off stay": replacing(
        FoldRules, "newest_cutoff", lambda _: property(lambda _: b"")
    ),
    "a cut-off ends no version": replacing(Cutoff, "spares", lambda _: lambda *_: True),
    "a cut-off ends every version": replacing(Cutoff, "spares", lambda _: lambda *_: False),
    "all versions agree": replacing(ContentComparison, "agree", lambda _: lambda *_: True),
    "no versions agree": replacing(ContentComparison, "agree", lambda _: lambda *_: False),
    "late changes leave stored versions alone": replacing(HistoryFold, "_set_values", _undisturbed),
    "columns that a flat row leaves out are null": replacing(
        FlatRowReader, "_find_absent", lambda _: lambda _, count, *others: [None] * count
    ),
    "BigQuery's numbers are compared as texts": replacing(
        bigquery, "canonical_sequence", lambda _: str.upper
    ),
    "every plain key is new": replacing(
        plain_rows,
        "_compare_sequences",
        lambda own: lambda orders: (np.ones_like(own(orders)[0]), own(orders)[1]),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_within_five_thousand_streams(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    FAULTS[fault](monkeypatch)

    for seed, connector in product(range(MOST_STREAMS // len(STREAMS)), STREAMS):
        try:
            check_stream(connector, seed)
        except Exception:  # any failure will do: a wrong row, a dead letter, a defect
            return
    pytest.fail("no stream shows the fault")
