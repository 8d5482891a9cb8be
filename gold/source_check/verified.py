"""`verified_through`: the position up to which a table was found equal to its source, or to bronze.

A comparison runs beside the runs that write the ledger, so its result is in a file per table below
the target's checkpoints. One with bronze never replaces one with the source. An interrupted
comparison is recorded there too, with its equal parts: the next one leaves these out. The same
holds for a comparison of several tables.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TypeVar

import msgspec

from lakehouse.config.target import Target
from lakehouse.places.place import Place, ask_each, to_place, write_whole
from lakehouse.storage.views import View, change_view

FOLDER, SWEEP = "_verified", "_sweep"
BRONZE, NEVER, EQUAL = "bronze", "never verified", "equal to "
Stored = TypeVar("Stored", bound=msgspec.Struct)


class Unfinished(msgspec.Struct, frozen=True, omit_defaults=True):
    """A comparison that has not ended.

    Attributes:
        what: a digest of what is compared.
        batch: the newest batch that gold showed when the comparison began.
        place: how far the source's log had come before the source was read; None where unknown.
        parts: the parts of the keys that are equal.
        gold: rows of gold in these parts.
        source: rows of the source in these parts.
    """

    what: str
    batch: int
    place: int | None = None
    parts: tuple[int, ...] = ()
    gold: int = 0
    source: int = 0

    def with_part(self, part: int, gold: int, source: int) -> "Unfinished":
        """The comparison with one more part that is equal."""
        counts = {"gold": self.gold + gold, "source": self.source + source}
        return msgspec.structs.replace(self, parts=(*self.parts, part), **counts)


class InFlight(msgspec.Struct, frozen=True):
    """What a comparison with the source left in flight.

    Attributes:
        place: how far the source's log had come when it was read.
        next: the number of the source's next transaction then.
        rows: the differences in flight, as digests.
        lasting: those found again after everything up to a look's place had been captured.
    """

    place: int
    next: str
    rows: tuple[str, ...]
    lasting: tuple[str, ...] = ()

    def after(self, earlier: "InFlight | None", passed: int, behind: bool = False) -> "InFlight":
        """The look with the rows that the one before had too, and that nothing explains.

        Either nothing was written at the source since, or what is captured has `passed` its place.
        Where the table is `behind`, as files wait to be read, an idle source explains nothing.
        """
        if earlier is None:
            return self
        over = passed >= earlier.place or (self.next == earlier.next and not behind)
        before = {*earlier.lasting, *(earlier.rows if over else ())}
        lasting = tuple(row for row in self.rows if row in before)
        return msgspec.structs.replace(self, lasting=lasting)


class Verified(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of a table.

    Attributes:
        through: the position, as the source writes it, else the batch of the change log.
        at: when the comparison ended that found the table equal, ISO 8601 in UTC.
        source: the table of the source, or `bronze`.
        unfinished: the comparison that goes on.
        look: what the newest comparison with the source left in flight.
    """

    through: str | None = None
    at: str | None = None
    source: str | None = None
    unfinished: Unfinished | None = None
    look: InFlight | None = None

    def resume(self, fresh: Unfinished) -> Unfinished:
        """The unfinished comparison if it compares the same as `fresh`, else `fresh`."""
        previous = self.unfinished
        return previous if previous is not None and previous.what == fresh.what else fresh

    def with_unfinished(self, unfinished: Unfinished | None) -> "Verified":
        """The state with an unfinished comparison, or without one."""
        return msgspec.structs.replace(self, unfinished=unfinished)


class Sweep(msgspec.Struct, frozen=True):
    """A comparison of several tables that has not ended: since when, and what is compared."""

    began: str
    what: str


def read_verified(target: Target, table: str) -> Verified:
    """What is known of a table; nothing, if the file cannot be read."""
    return _read_file(_locate_file(target, table), Verified) or Verified()


def write_verified(target: Target, table: str, verified: Verified) -> None:
    """Keeps what is known of a table."""
    write_whole(_locate_file(target, table), msgspec.json.encode(verified))


def list_verified(target: Target, tables: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """What `status` and the report show of each table: `verified_through`, `_at`, `_against`."""
    files = [_locate_file(target, table) for table in tables]
    states = ask_each(lambda file: _read_file(file, Verified) or Verified(), files)
    shown = [
        {"verified_through": one.through, "verified_at": one.at, "verified_against": one.source}
        for one in states
    ]
    return dict(zip(tables, shown, strict=True))


def keep_proof(target: Target, table: str, through: str) -> None:
    """Keeps that a table was found equal to what bronze has, and says so in gold's comment."""
    before = read_verified(target, table)
    if before.through is None or before.source == BRONZE:
        proof = Verified(through, utc_now(), BRONZE, before.unfinished, before.look)
        write_verified(target, table, proof)
        show_proof(target, table)


def show_proof(target: Target, table: str) -> None:
    """Brings gold's comment up to date; in a catalog the next run does so."""
    if not target.catalog:
        of = list_verified(target, [table])[table]
        change_view(target, "gold", table, lambda view: add_proof(view, of))


def add_proof(view: View, of: Mapping[str, str | None]) -> View:
    """The view with what is proved of its table at the end of its comment."""
    return view._replace(comment=f"{cut_proof(view.comment)}; {describe_verified(of)}")


def cut_proof(comment: str) -> str:
    """A view's comment without what is proved of its table."""
    text, _, proof = comment.rpartition("; ")
    return text if proof.startswith((NEVER, EQUAL)) else comment


def describe_verified(of: Mapping[str, str | None]) -> str:
    """What `list_verified` has of a table in words."""
    if of["verified_through"] is None:
        return NEVER
    day = str(of["verified_at"])[:16].replace("T", " ")
    return f"{EQUAL}{of['verified_against']} through {of['verified_through']}, found {day}Z"


@contextmanager
def sweep_tables(target: Target, tables: Sequence[str], source: str) -> Iterator[dict[str, str]]:
    """Compares several tables; yields those that an interrupted sweep has found equal, and when.

    The sweep ends when the block ends without an exception.
    """
    file, what = _locate_file(target, SWEEP), "\n".join([source, *sorted(tables)])
    sweep = _read_file(file, Sweep)
    if sweep is None or sweep.what != what:
        sweep = Sweep(utc_now(), what)
        write_whole(file, msgspec.json.encode(sweep))
    proofs = {table: read_verified(target, table) for table in tables}
    ended = {table: one.at or "" for table, one in proofs.items() if one.source != BRONZE}
    yield {table: at for table, at in ended.items() if at >= sweep.began}
    file.unlink(missing_ok=True)


def utc_now() -> str:
    """The time, ISO 8601 in UTC."""
    return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")


def _locate_file(target: Target, table: str) -> Place:
    return to_place(target, target.checkpoints, FOLDER, f"{table}.json")


def _read_file(file: Place, kind: type[Stored]) -> Stored | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None
