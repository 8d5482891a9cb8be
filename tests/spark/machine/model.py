"""What a lake must show after each command, in plain Python: the semantics and nothing else."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.helpers.oracle import Event, Outcome, outcome
from tests.spark.machine.source import Sent, stamp

COLUMNS, NOBODY = ["name", "qty", "extra"], -1


@dataclass(frozen=True)
class Conf:
    """What a table's YAML says of the things that are edited."""

    history: bool = True
    where: bool = False
    rule: bool = False
    flag: bool = False
    declared: bool = False
    renamed: bool = False
    published: bool = False
    present: bool = True

    def judge(self, sent: Sent) -> str:
        """What becomes of a record under this YAML: applied, dead or filtered."""
        if self.where and sent.marked:
            return "filtered"
        if sent.event is None:
            return "dead"
        qty = dict(sent.event.values).get("qty")
        return "dead" if self.rule and qty is not None and qty < 0 else "applied"

    @property
    def meaning(self) -> tuple[bool, ...]:
        """What rows mean: a table that was built otherwise is refused until it is rebuilt."""
        return self.history, self.where


@dataclass
class Taken:
    """A record in bronze, and what silver made of it; None while it has not been read."""

    sent: Sent
    verdict: str | None = None
    acknowledged: bool = False


@dataclass
class Model:
    """One table.

    Attributes:
        conf: the YAML as it is.
        built: the YAML with which the table was built; None before its first record.
        view: the YAML with which gold was published last.
        waiting: files that bronze has not read, by name.
        read: files that it has read.
        changed: files that were overwritten after they were read.
        gone: names of files that were read and are there no more.
        bronze: every record that was read.
        ended: what full snapshots did whose last row was erased.
    """

    conf: Conf = Conf()
    built: Conf | None = None
    view: Conf = Conf()
    waiting: dict[str, list[Sent]] = field(default_factory=dict)
    read: dict[str, list[Sent]] = field(default_factory=dict)
    changed: dict[str, list[Sent]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    bronze: list[Taken] = field(default_factory=list)
    ended: set[Event] = field(default_factory=set)

    @property
    def refuses(self) -> bool:
        """Whether a run must refuse the table: its rows mean something else than the YAML says."""
        if self.built is None or not self.conf.present:
            return False
        lost = self.built.renamed and not self.conf.renamed
        lost |= self.conf.flag and not self.built.flag
        return self.conf.meaning != self.built.meaning or lost

    @property
    def is_shown(self) -> bool:
        """Whether gold has rows that the YAML describes."""
        return self.built is not None and self.conf.present and not self.refuses

    @property
    def is_at_rest(self) -> bool:
        """Whether silver has read all of bronze, with the YAML as it is."""
        return self.is_shown and self.built is not None and self.conf.renamed == self.built.renamed

    @property
    def dead(self) -> list[Taken]:
        """The unresolved dead letters."""
        return [one for one in self.bronze if one.verdict == "dead"]

    @property
    def unread(self) -> list[Taken]:
        """What bronze has and silver has not read."""
        return [one for one in self.bronze if one.verdict is None]

    def ingest(self) -> None:
        """Bronze takes every file that waits."""
        for lines in self.waiting.values():
            self.bronze += [Taken(line) for line in lines]
        self.read |= self.waiting
        self.waiting = {}

    def run(self) -> None:
        """All layers, unless the table is refused: then bronze alone."""
        if not self.conf.present:
            return
        self.ingest()
        if self.refuses:
            return
        if self.built is not None and self.conf.renamed != self.built.renamed:
            self.rebuild()
        self._judge(self.unread)
        self.view = self.conf

    def rebuild(self) -> None:
        """Every record of bronze is judged by the YAML as it is now."""
        self._judge(self.bronze)
        self.view = self.conf

    def replay(self) -> None:
        """Dead letters are judged again."""
        self._judge(self.dead)
        self.view = self.conf

    def mend(self, one: Taken, good: Sent) -> None:
        """A record stands in the place of a dead letter."""
        one.sent = good
        self._judge([one])
        self.view = self.conf

    def erase(self, key: int) -> None:
        """Nothing of a key is left, but that a snapshot with it was whole."""
        self.run()
        gone = [one.sent.event for one in self.bronze if one.sent.key == key]
        ends = [event for event in gone if event and event.last]
        self.ended |= {replace(event, operation="delete", key=NOBODY, values=()) for event in ends}
        self.bronze = [one for one in self.bronze if one.sent.key != key]

    def _judge(self, records: Iterable[Taken]) -> None:
        for one in records:
            one.verdict = self.conf.judge(one.sent)
            self.built = self.conf

    def outcome(self) -> Outcome:
        """What a reader has who applies the good records one by one."""
        events: set[Event] = {
            one.sent.event for one in self.bronze if one.sent.event and one.verdict == "applied"
        }
        return outcome(events | self.ended, COLUMNS, COLUMNS)

    def current(self) -> list[dict[str, Any]]:
        """The rows of gold, nulls left out."""
        found = self.outcome()
        rows = [self._row(key, row) for key, row in found.current.items()]
        if self._shown.flag:
            rows = [row | {"is_deleted": False} for row in rows]
            flagged = found.flagged.items()
            rows += [self._row(key, row) | {"is_deleted": True} for key, row in flagged]
        return in_order(rows)

    def history(self) -> list[dict[str, Any]]:
        """The versions of gold, nulls left out."""
        rows = []
        for key, begins, ends, *values in self.outcome().history:
            row = self._row(key, dict(zip(COLUMNS, values, strict=True)))
            row["valid_from"] = stamp(begins)
            rows.append(row if ends is None else row | {"valid_to": stamp(ends)})
        return in_order(rows)

    def as_of(self, at: int) -> list[dict[str, Any]]:
        """What gold would have shown at a time of the source, nulls left out."""
        rows = []
        for key, begins, ends, *values in self.outcome().history:
            if begins <= at and (ends is None or ends > at):
                row = self._row(key, dict(zip(COLUMNS, values, strict=True)))
                rows.append(row | ({"is_deleted": False} if self.view.flag else {}))
        return in_order(rows)

    @property
    def _shown(self) -> Conf:
        """The YAML that gold shows: settings of views follow each run, others the build."""
        return replace(self.built or self.conf, flag=self.view.flag)

    def _row(self, key: int, row: dict[str, Any]) -> dict[str, Any]:
        name = "label" if self._shown.renamed else "name"
        named = {(name if column == "name" else column): value for column, value in row.items()}
        return {"id": key} | {c: value for c, value in named.items() if value is not None}


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in an order of their own."""
    return sorted(rows, key=lambda row: sorted((k, str(v)) for k, v in row.items()))
