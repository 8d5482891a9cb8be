"""What the status says, as Prometheus reads it: text exposition format 0.0.4."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from gold.capture_status import CaptureStatus

Record = Mapping[str, Any]
Sample = tuple[Mapping[str, str], float]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "lakehouse_"
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


class Family(NamedTuple):
    """A metric: its name, its help text, and its value in a status record, None for no value."""

    name: str
    help: str
    value: Callable[[Record], float | None]


def _number(name: str, text: str) -> Family:
    """The number or truth value of the key that is called like the metric."""

    def read_number(record: Record) -> float | None:
        return None if record.get(name) is None else float(record[name])

    return Family(name, text, read_number)


def _time(name: str, text: str, key: str) -> Family:
    """The time of a key, in seconds since 1970."""
    return Family(name, text, lambda record: _to_seconds(record.get(key)))


def _length(name: str, text: str, key: str) -> Family:
    return Family(name, text, lambda record: float(len(record.get(key, ()))))


def _to_seconds(time: str | None) -> float | None:
    return datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() if time else None


FAMILIES = (
    _number("rows", "Live rows that are applied."),
    _time("watermark_timestamp_seconds", "Newest commit at the source shown.", "watermark"),
    _number("lag_seconds", "Age of the newest commit at the source shown."),
    _number("staleness_seconds", "How long the oldest waiting change waits."),
    _number("max_staleness_seconds", "The promised staleness."),
    _number("stale", "1 if a change waits for longer than promised."),
    _number("pending_changes", "Decoded records that are not applied."),
    _number("waiting_transactions", "Transactions that wait for other tables of their group."),
    _number("dead_letters_alert", "1 if there are more dead letters than allowed."),
    _number("stale_keys", "Keys whose newest change is a dead letter."),
    _length("schema_changes", "Schema changes of the source so far.", "drift"),
    _length("gaps", "Open gaps in the source.", "gaps"),
    _number("files", "Data files at the last publication."),
    _number("bytes", "Size of the data files at the last publication."),
    _number("deletion_vectors", "Deletion vectors at the last publication."),
    _number("apply_p95_seconds", "95th percentile of a run's time, 7 days."),
    _number("applied_batch", "Newest batch of the change log that is applied."),
    _time("last_run_timestamp_seconds", "End of the last run with work.", "last_run"),
    Family(
        "last_run_failed",
        "1 if the last work on a layer of the table failed.",
        lambda record: float(record.get("last_failure") is not None),
    ),
    _time(
        "verified_timestamp_seconds",
        "When the table was last found equal to its source.",
        "verified_at",
    ),
    _number("accounted", "1 if outcomes add up to the records."),
    _time("checked_timestamp_seconds", "When these figures were read.", "checked_at"),
    _time("as_of_timestamp_seconds", "When a command took these figures.", "as_of"),
)


CAPTURE = (
    ("lag_seconds", "How long the oldest change that is not captured has waited.", "lag"),
    ("lag_bytes", "The database's log behind what is captured.", "lag_bytes"),
    ("kept_bytes", "What the database keeps of its log.", "kept_bytes"),
    ("unconverted_values", "Values that Debezium could not convert.", "unconverted"),
    ("newest_file_timestamp_seconds", "When the newest file was written.", "newest_file"),
    ("noted_timestamp_seconds", "When the capture was last at work.", "at"),
)


def render_metrics(
    records: Sequence[Record], version: str, capture: CaptureStatus | None = None
) -> str:
    """All families of the status records; a family without a value is left out."""
    build = "The version of the lakehouse."
    lines = [*_render_family("build_info", build, [({"version": version}, 1.0)])]
    for family in FAMILIES:
        values = [(record["table"], family.value(record)) for record in records]
        samples = [({"table": table}, value) for table, value in values if value is not None]
        lines += _render_family(family.name, family.help, samples)
    letters = [
        ({"table": record["table"], "reason": reason}, float(count))
        for record in records
        for reason, count in record.get("dead_letters", {}).items()
    ]
    lines += _render_family("dead_letters", "Unresolved dead letters by reason.", letters)
    through = [(r["table"], r["verified_through"]) for r in records if r["verified_through"]]
    positions = [({"table": table, "position": position}, 1.0) for table, position in through]
    lines += _render_family("verified_through", "Up to which position that was.", positions)
    for name, text, key in CAPTURE if capture else ():
        value = getattr(capture, key)
        samples = [({"name": capture.name}, float(value))] if capture and value is not None else []
        lines += _render_family(f"capture_{name}", text, samples)
    return "\n".join([*lines, ""])


def _render_family(name: str, text: str, samples: Sequence[Sample]) -> Iterator[str]:
    """The lines of one family."""
    if not samples:
        return
    yield f"# HELP {_PREFIX}{name} {text}"
    yield f"# TYPE {_PREFIX}{name} gauge"
    for labels, value in samples:
        pairs = ",".join(f'{label}="{text.translate(_ESCAPES)}"' for label, text in labels.items())
        yield f"{_PREFIX}{name}{{{pairs}}} {value!r}"
