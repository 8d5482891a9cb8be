"""The law in plain Python: sort the changes of a table by sequence and apply them one by one."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """One change. `values` has the carried columns only.

    `position` is where the source keeps it; `orders` are those of columns that have their own.
    """

    operation: str
    sequence: int
    key: int | None = None
    values: tuple[tuple[str, Any], ...] = ()
    old_key: int | None = None
    position: int = 0
    time: int = 0
    snapshot: str | None = None
    last: bool = False
    orders: tuple[tuple[str, int], ...] = ()


@dataclass
class Outcome:
    current: dict[int, dict[str, Any]] = field(default_factory=dict)
    tombstones: set[int] = field(default_factory=set)
    history: list[tuple[Any, ...]] = field(default_factory=list)
    flagged: dict[int, dict[str, Any]] = field(default_factory=dict)


def outcome(events: set[Event], columns: list[str], tracked: list[str]) -> Outcome:
    """What a single-threaded reader has after applying all events in order."""
    rows: dict[int, dict[str, Any]] = {}
    memory: dict[int, dict[str, Any]] = {}
    seen: set[int] = set()
    open_versions: dict[int, dict[str, Any]] = {}
    cut: dict[int, tuple[dict[str, Any], Event]] = {}
    history: list[dict[str, Any]] = []
    flagged: dict[int, dict[str, Any]] = {}
    orders: dict[int, dict[str, int]] = {}

    def close(key: int, time: int, by: Event | None = None) -> None:
        version = open_versions.pop(key, None)
        if version is None:
            return
        if by is None:
            history.append(version | {"to": time})
        else:
            cut[key] = version | {"to": time}, by

    def leave_cut(key: int, event: Event) -> None:
        """A version that a truncate ended goes on to a row of its snapshot, or put back at once."""
        version, by = cut.pop(key)
        shown = event.snapshot is not None and event.snapshot == by.snapshot
        if event.operation == "upsert" and (shown or event.time == by.time):
            open_versions[key] = version | {"to": None}
        else:
            history.append(version)

    for event in in_order(events):
        if event.operation == "truncate":
            for key in list(rows):
                close(key, event.time, event)
            rows.clear()
            memory.clear()
            seen.clear()
            flagged.clear()
            orders.clear()
            continue
        key = event.key
        seen.add(key)
        if key in cut:
            leave_cut(key, event)
        if event.operation == "delete":
            close(key, event.time)
            if key in rows:
                flagged[key] = rows.pop(key)
            orders.pop(key, None)
            continue
        flagged.pop(key, None)
        given = dict(event.values)
        known = orders.setdefault(key, {})
        for column, order in event.orders:
            if order < known.get(column, 0):
                del given[column]
            else:
                known[column] = order
        before = rows.get(key, {})
        old = memory.get(event.old_key, {}) if event.old_key is not None else {}
        row = {c: given[c] if c in given else old.get(c, before.get(c)) for c in columns}
        rows[key] = row
        memory[key] = row
        version = open_versions.get(key)
        if version and all(version["row"][c] == row[c] for c in tracked):
            version["row"] = row
        else:
            close(key, event.time)
            open_versions[key] = {"key": key, "row": row, "from": event.time, "to": None}
    history += [*open_versions.values(), *(version for version, _ in cut.values())]
    lines = sorted(
        ((v["key"], v["from"], v["to"], *[v["row"][c] for c in columns]) for v in history), key=repr
    )
    return Outcome(rows, seen - set(rows), lines, flagged)


def in_order(events: set[Event]) -> list[Event]:
    """The events by epoch, snapshot rows first, then sequence.

    A snapshot whose last row is among them begins with a truncate.
    """
    starts: dict[str, int] = {}
    for e in events:
        if e.snapshot:
            starts[e.snapshot] = min(starts.get(e.snapshot, e.position), e.position)
    ordered = sorted(starts, key=lambda s: starts[s])
    epoch = {s: n for n, s in enumerate(ordered, start=1)}
    placed: list[tuple[tuple[int, int, int, int], Event]] = []
    for e in events:
        own = epoch[e.snapshot] if e.snapshot else sum(starts[s] <= e.position for s in ordered)
        placed.append(((own, int(e.snapshot is None), e.sequence, e.position), e))
    for s in ordered:
        rows = [e for e in events if e.snapshot == s]
        if any(e.last for e in rows):
            first = min(e.time for e in rows)
            placed.append(((epoch[s], -1, 0, 0), Event("truncate", 0, time=first, snapshot=s)))
    return [e for _, e in sorted(placed, key=lambda p: p[0])]
