"""What the status says, as Prometheus reads it: text exposition format 0.0.4."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

Record = Mapping[str, Any]
Sample = tuple[Mapping[str, str], float]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "lakehouse_"
_ESCAPES = {"\\": "\\\\", "\n": "\\n", '"': '\\"'}


class Family(NamedTuple):
    """A metric: its name, its help text, and its value in a status record, None for no value."""

    name: str
    help: str
    value: Callable[[Record], float | None]


def _get(key: str) -> Callable[[Record], float | None]:
    """The number or truth value of a key."""
    return lambda record: None if record.get(key) is None else float(record[key])


def _time_of(key: str) -> Callable[[Record], float | None]:
    """The time of a key, in seconds since 1970."""
    return lambda record: None if not record.get(key) else _to_seconds(record[key])


def _length_of(key: str) -> Callable[[Record], float | None]:
    return lambda record: float(len(record.get(key, ())))


FAMILIES = (
    Family("rows", "Live rows that are applied.", _get("rows")),
    Family(
        "watermark_timestamp_seconds", "Newest commit at the source shown.", _time_of("watermark")
    ),
    Family("lag_seconds", "Age of the newest commit at the source shown.", _get("lag_seconds")),
    Family(
        "staleness_seconds", "How long the oldest waiting change waits.", _get("staleness_seconds")
    ),
    Family("max_staleness_seconds", "The promised staleness.", _get("max_staleness_seconds")),
    Family("stale", "1 if a change waits for longer than promised.", _get("stale")),
    Family("pending_changes", "Decoded records that are not applied.", _get("pending_changes")),
    Family(
        "waiting_transactions",
        "Transactions that wait for other tables of their group.",
        _get("waiting_transactions"),
    ),
    Family(
        "dead_letters_alert",
        "1 if there are more dead letters than allowed.",
        _get("dead_letters_alert"),
    ),
    Family("stale_keys", "Keys whose newest change is a dead letter.", _get("stale_keys")),
    Family("schema_changes", "Schema changes of the source so far.", _length_of("drift")),
    Family("gaps", "Open gaps in the source.", _length_of("gaps")),
    Family("files", "Data files at the last publication.", _get("files")),
    Family("bytes", "Size of the data files at the last publication.", _get("bytes")),
    Family(
        "deletion_vectors", "Deletion vectors at the last publication.", _get("deletion_vectors")
    ),
    Family(
        "apply_p95_seconds", "95th percentile of a run's time, 7 days.", _get("apply_p95_seconds")
    ),
    Family(
        "applied_batch", "Newest batch of the change log that is applied.", _get("applied_batch")
    ),
    Family("last_run_timestamp_seconds", "End of the last run with work.", _time_of("last_run")),
    Family(
        "last_run_failed",
        "1 if the last work on a layer of the table failed.",
        lambda record: float(record.get("last_failure") is not None),
    ),
    Family(
        "verified_timestamp_seconds",
        "When the table was last found equal to its source.",
        _time_of("verified_at"),
    ),
    Family("accounted", "1 if outcomes add up to the records.", _get("accounted")),
    Family("checked_timestamp_seconds", "When these figures were asked.", _time_of("checked_at")),
)


def render_metrics(records: Sequence[Record], version: str) -> str:
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
    return "\n".join([*lines, ""])


def update_ages(record: Record, now: float) -> Record:
    """An older status record with its ages brought up to `now`, in seconds since 1970."""
    gone = now - (_time_of("checked_at")(record) or now)
    lag, waits = record.get("lag_seconds"), record.get("staleness_seconds")
    promised = record.get("max_staleness_seconds")
    waits = waits + gone if waits else waits
    stale = bool(record.get("stale")) or bool(waits and promised and waits > promised)
    lag = None if lag is None else lag + gone
    return {**record, "lag_seconds": lag, "staleness_seconds": waits, "stale": stale}


def _render_family(name: str, text: str, samples: Sequence[Sample]) -> Iterator[str]:
    """The lines of one family."""
    if not samples:
        return
    yield f"# HELP {_PREFIX}{name} {text}"
    yield f"# TYPE {_PREFIX}{name} gauge"
    for labels, value in samples:
        pairs = ",".join(f'{label}="{_escape_label(text)}"' for label, text in labels.items())
        yield f"{_PREFIX}{name}{{{pairs}}} {value!r}"


def _escape_label(text: str) -> str:
    return re.sub(r'[\\\n"]', lambda special: _ESCAPES[special[0]], text)


def _to_seconds(time: str) -> float:
    return datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()
