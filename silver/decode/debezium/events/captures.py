"""Updates of Spanner that carry the columns that they changed, by the change stream's capture type.

`NEW_ROW` and `NEW_ROW_AND_OLD_VALUES` carry whole rows. The connector writes null for a column that
`OLD_AND_NEW_VALUES` or `NEW_VALUES` leave out. The old values tell such a null from one that was
written; without them nothing does.
"""

from silver.decode.debezium.events.documents import DocumentChange
from silver.decode.debezium.events.envelope import Envelope

_WITH_OLD, _WITHOUT_OLD = "OLD_AND_NEW_VALUES", "NEW_VALUES"
_UNTOLD = (
    "found an update with value_capture_type NEW_VALUES, in which a null may be a column that it "
    "did not change, expected NEW_ROW"
)


def captured_change(envelope: Envelope) -> DocumentChange | None:
    """The update as one of some columns; None where the event carries a whole row."""
    source, after = envelope.source, envelope.after
    if source is None or after is None or envelope.op != "u":
        return None
    if source.value_capture_type not in (_WITH_OLD, _WITHOUT_OLD):
        return None
    before = envelope.before or {}
    carried = {n: v for n, v in after.items() if v is not None or before.get(n) is not None}
    is_untold = source.value_capture_type == _WITHOUT_OLD and len(carried) < len(after)
    envelope.after = carried
    return DocumentChange(envelope, True, _UNTOLD if is_untold else None)
