"""One key under the law, without Arrow: its rows and all outcomes are those of a plain count.

The reference here is written for ties, too: it applies all changes known so far in order.
"""

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silver.fold.rules import OUTCOMES, Cutoff, FoldRules
from tests.helpers.one_key import COLUMNS, SECOND, Change, CurrentKey, HistoryKey, cutoff
from tests.properties.budget import budget

SEEDS = st.integers(0, 2**32)
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "tracked": {"tracked": ("a",)},
    "from_log": {"from_log": True},
    "kept": {"keeps_deleted": True},
}


class Arrived(NamedTuple):
    """The first delivery of a change, and the batch that brought it."""

    change: Change
    batch: int

    @property
    def upsert(self) -> bool:
        return self.change.values is not None


class Reference:
    """All that a reader knows who has every first delivery, in order."""

    def __init__(self, cutoffs: tuple[Cutoff, ...], tracked: tuple[str, ...]) -> None:
        self.cutoffs, self.tracked = cutoffs, tracked
        self.known: dict[Any, Arrived] = {}

    def take(self, batch: list[Change], number: int) -> list[Arrived]:
        """The changes of a batch that were not known."""
        fresh = []
        for change in batch:
            identity = change.sequence, repr(change.values)
            if identity not in self.known:
                self.known[identity] = Arrived(change, number)
                fresh.append(self.known[identity])
        return fresh

    @property
    def ordered(self) -> list[Arrived]:
        return sorted(self.known.values(), key=lambda a: a.change.order)

    def life(self, own: Arrived) -> bytes:
        """The newest delete or cut-off before a change."""
        before = [a.change.order for a in self.ordered if not a.upsert]
        before += [c.order for c in self.cutoffs]
        return max((place for place in before if place < own.change.order), default=b"")

    def values(self, own: Arrived) -> dict[str, Any]:
        """What the row held after a change."""
        row: dict[str, Any] = dict.fromkeys(COLUMNS)
        for each in self.ordered:
            if each.change.order <= own.change.order and each.upsert:
                row |= (each.change.values or {}) if self.life(each) == self.life(own) else {}
        return row

    def is_tied(self, own: Arrived) -> bool:
        """Whether another change at the same sequence came later."""
        return any(
            a.change.sequence == own.change.sequence and a.change.order > own.change.order
            for a in self.ordered
        )

    def row(self) -> dict[str, Any] | None:
        newest = self.ordered[-1] if self.known else None
        if newest is None or not newest.upsert or self.below(newest):
            return None
        return self.values(newest)

    def below(self, own: Arrived) -> bool:
        return bool(self.cutoffs) and own.change.order < self.cutoffs[-1].order

    def versions(self) -> list[tuple[Any, ...]]:
        """Beginning, end and values of each version; times never run back."""
        counting = [(a, a.change.order) for a in self.ordered if not self.is_tied(a)]
        cuts = [c for c in self.cutoffs if not self._spared(c, counting)]
        times = self._times(counting, cuts)
        breaks = [c.order for c in cuts] + [a.change.order for a in self.ordered if not a.upsert]
        lines: list[dict[str, Any]] = []
        for each, place in counting:
            if not each.upsert:
                continue
            row = self.values(each)
            life = max((order for order in breaks if order < place), default=b"")
            content = life, [row[c] for c in self.tracked]
            if lines and lines[-1]["content"] == content:
                lines[-1] |= {"row": row, "last": place}
            else:
                lines.append({"content": content, "row": row, "from": times[place], "last": place})
        ends = sorted([*times.items(), *((c.order, (c.time or 0) // SECOND) for c in cuts)])
        return [(v["from"], _end(v, ends), v["row"]["a"], v["row"]["b"]) for v in lines]

    def _times(self, counting: list[tuple[Arrived, bytes]], cuts: list[Cutoff]) -> dict[bytes, int]:
        """The newest time up to each change, and to the cut-off that ended the version before."""
        times: dict[bytes, int] = {}
        newest, before = 0, None
        for each, place in counting:
            passed = [a.change.time or 0 for a in self.ordered if a.change.order <= place]
            if before is not None and before.upsert:
                ending = [c for c in cuts if before.change.order < c.order < place]
                passed += [(c.time or 0) // SECOND for c in ending[:1]]
            newest, before = max(newest, *passed), each
            times[place] = newest
        return times

    @staticmethod
    def _spared(cut: Cutoff, counting: list[tuple[Arrived, bytes]]) -> bool:
        """Whether the next change is an upsert of the snapshot that begins there, or at once."""
        after = [(a, place) for a, place in counting if place > cut.order]
        if not after or not after[0][0].upsert:
            return False
        return after[0][1] < cut.until or (after[0][0].change.time or 0) * SECOND == cut.time

    def woven(self, own: Arrived) -> str:
        """The outcome of a change of a history."""
        after = [a for a in self.ordered if a.change.order > own.change.order]
        if (own.upsert and self.is_tied(own)) or self.below(own):
            return "superseded"
        if any(a.batch < own.batch for a in after):
            return "late"
        before = [a for a in self.ordered if a.change.order < own.change.order]
        alone = not any(self.life(a) == self.life(own) for a in before)
        if own.upsert:
            return "inserted" if alone else "updated"
        return "delete_unknown" if alone else "deleted"

    def applied(self, fresh: list[Arrived], number: int) -> str | None:
        """The outcome of the newest change of a current table's batch, where it is the newest."""
        newest = self.ordered[-1] if self.known else None
        if newest is None or newest not in fresh or self.below(newest):
            return None
        earlier = [a for a in self.ordered if a.batch < number and not self.below(a)]
        live = bool(earlier) and earlier[-1].upsert
        if newest.upsert:
            return "updated" if live else "inserted"
        place = earlier[-1].change.order if earlier else b""
        came = any(a.upsert and a.change.order > place and not self.below(a) for a in fresh)
        return "deleted" if live or came else "delete_unknown"


def _end(version: dict[str, Any], ends: list[tuple[bytes, int]]) -> int | None:
    after = [time for place, time in ends if place > version["last"]]
    return max(after[0], version["from"]) if after else None


@pytest.mark.parametrize("kind", KINDS)
@budget(200)
@given(seed=SEEDS)
def test_a_current_row_and_its_outcomes_are_the_references(kind: str, seed: int) -> None:
    random = Random(seed)
    cutoffs, batches = deliveries(random)
    reference = Reference(cutoffs, COLUMNS)
    rules = FoldRules(COLUMNS, cutoffs=cutoffs, from_log=kind == "from_log")
    key = CurrentKey(rules)
    for number, batch in enumerate(batches, start=1):
        shown = key.facts
        fresh = reference.take(batch, number)
        outcome = key.take(*batch)
        assert key.row == reference.row()
        own = None if outcome.applied == "late" else outcome.applied
        assert own == reference.applied(fresh, number)
        total = (outcome.applied is not None) + outcome.superseded + outcome.duplicate
        assert total == len(batch) and min(outcome[1:]) >= 0
        above = [c for c in batch if not cutoffs or c.order >= cutoffs[-1].order]
        assert outcome.duplicate <= len(above) - len([a for a in fresh if a.change in above])
        if rules.from_log:
            assert outcome.duplicate == len(above) - len([a for a in fresh if a.change in above])
        assert (key.facts is None) or key.facts.order == reference.ordered[-1].change.order
        if outcome.applied == "late":
            assert shown is not None and key.wrote


@pytest.mark.parametrize("kind", KINDS)
@budget(200)
@given(seed=SEEDS)
def test_a_history_and_its_outcomes_are_the_references(kind: str, seed: int) -> None:
    random = Random(seed)
    cutoffs, batches = deliveries(random)
    rules = FoldRules(COLUMNS, **({"tracked": COLUMNS, "cutoffs": cutoffs} | KINDS[kind]))
    reference, key = Reference(cutoffs, rules.tracked), HistoryKey(rules)
    for number, batch in enumerate(batches, start=1):
        before = dict(reference.known)
        fresh = reference.take(batch, number)
        found = key.take(*batch)
        assert key.versions == reference.versions()
        want = dict.fromkeys(OUTCOMES, 0) | {"duplicate": len(batch) - len(fresh)}
        for each in fresh:
            want[reference.woven(each)] += 1
        assert found == {name: n for name, n in sorted(want.items()) if n}
        assert key.ties == ties(reference.known) - ties(before)
        key.take(*batch)
        assert key.written == 0


def ties(known: dict[Any, Arrived]) -> int:
    return len(known) - len({place for place, _ in known})


def deliveries(random: Random) -> tuple[tuple[Cutoff, ...], list[list[Change]]]:
    """Cut-offs, and changes of one key with many ties in batches, some of them again."""
    chosen = sorted(random.sample([3, 7], random.choice([0, 0, 1, 2])))
    ends = [(None, None), (None, 5), (1, None), (4, None)]
    cutoffs = tuple(
        cutoff(n, later and n + later, until and n + until - 3)
        for n, (later, until) in ((n, random.choice(ends)) for n in chosen)
    )
    changes = [_change(random) for _ in range(random.randint(1, 9))]
    again = [random.choice(changes) for _ in range(random.randint(0, 4))]
    delivered = [c._replace(arrival=n) for n, c in enumerate(changes + again, start=1)]
    return cutoffs, list(_cut(random, delivered))


def _change(random: Random) -> Change:
    """A change whose time may run ahead of its place, or behind."""
    sequence = 2 * random.randint(1, 5)
    time = max(1, sequence + random.choice([0, 0, 0, 3, -3]))
    if random.random() < 0.25:
        return Change(sequence, None, None, time)
    carried = random.sample(COLUMNS, random.randint(1, 2))
    return Change(sequence, {c: random.choice("xy") for c in sorted(carried)}, None, time)


def _cut(random: Random, changes: list[Change]) -> Iterator[list[Change]]:
    at = 0
    while at < len(changes):
        size = random.randint(1, 5)
        yield changes[at : at + size]
        at += size
