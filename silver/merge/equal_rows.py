"""How many equal rows a table without a key has, of records with one log position.

The rows of one COPY or multi-row insert may share a position, and all equal ones among them count.
A connector that was killed delivers them once more, and that adds none. So equal rows are counted
within one delivery, and the delivery that has the most of them counts.

A delivery is a run of records at consecutive offsets of one partition (without offsets: at
consecutive lines of one file), each handled by the connector within a second of the one before: a
connector takes longer than that to start again. A run continues in the file with the next offsets,
unless that file repeats the contents of the file before.

More records never make fewer rows: a batch adds what the count grows by.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_
from typing import NamedTuple

import pyarrow as pa

_LONGEST_PAUSE = 1_000_000
"""Microseconds between two records of one delivery, at most."""


class Place(NamedTuple):
    """A record at a log position: where it was delivered, and its content.

    `offset` counts in `log`: a topic's partition, or a file. `file` is the dropped file that
    delivered the record, empty for Kafka. `handled_at` is when the connector handled it, in
    microseconds. `content` stands for the operation and the values.
    """

    log: str
    offset: int
    file: str
    handled_at: int | None
    content: str


def count_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Called by `mapInArrow`: each row has the `places` of the records with one log position.

    Yields:
        `_row`, a content of which there are several rows, and `_rows`, their number.
    """
    for batch in batches:
        lists = batch["places"].to_pylist()
        counted = (count_equal(Place(**place) for place in places) for places in lists)
        several = [(row, n) for counts in counted for row, n in counts.items() if n > 1]
        arrays = [pa.array([row for row, _ in several], pa.string())]
        arrays.append(pa.array([n for _, n in several], pa.int32()))
        yield pa.RecordBatch.from_arrays(arrays, names=["_row", "_rows"])


class _Delivery(NamedTuple):
    """Consecutive places of one file, and how often each content is in their delivery."""

    places: list[Place]
    counts: Counter[str]

    @property
    def contents(self) -> list[str]:
        return [place.content for place in self.places]


def count_equal(places: Iterable[Place]) -> dict[str, int]:
    """How many rows there are of each content, of records with one log position."""
    by_end: dict[tuple[str, int], list[_Delivery]] = {}
    largest: Counter[str] = Counter()
    runs = _split_deliveries(places)
    for run in sorted(runs, key=lambda run: (run.places[0].log, run.places[0].offset)):
        first, last = run.places[0], run.places[-1]
        earlier = by_end.get((first.log, first.offset - 1), ())
        continued = [delivery.counts for delivery in earlier if _is_continued(delivery, run)]
        counts = reduce(or_, continued, Counter[str]()) + run.counts
        by_end.setdefault((last.log, last.offset), []).append(_Delivery(run.places, counts))
        largest |= counts
    return dict(largest)


def _split_deliveries(places: Iterable[Place]) -> Iterator[_Delivery]:
    run: list[Place] = []
    for place in sorted({*places}, key=lambda p: (p.log, p.file, p.offset, p.content)):
        if run and not (place.file == run[-1].file and _is_next_place(run[-1], place)):
            yield _Delivery(run, Counter(p.content for p in run))
            run = []
        run.append(place)
    if run:
        yield _Delivery(run, Counter(p.content for p in run))


def _is_next_place(place: Place, following: Place) -> bool:
    times = place.handled_at, following.handled_at
    is_soon = times[0] is None or times[1] is None or abs(times[1] - times[0]) <= _LONGEST_PAUSE
    return place.log == following.log and following.offset - place.offset <= 1 and is_soon


def _is_continued(delivery: _Delivery, run: _Delivery) -> bool:
    """Whether a run of the next file continues a delivery, and does not repeat it."""
    if delivery.places[0].file == run.places[0].file or delivery.contents == run.contents:
        return False
    return _is_next_place(delivery.places[-1], run.places[0])
