from gold.source_check.digests import Difference
from gold.source_check.verdict import LogKnowledge, split_by_log


def row(id: str, by: str | None, gold: bool = True, source: bool = True) -> Difference:
    return Difference(id, {"id": id}, {} if gold else None, {} if source else None, by)


KNOWN = LogKnowledge(reached=500, writers=frozenset({"90"}), snapshot=50)


def test_a_row_of_a_transaction_that_was_applied_is_really_different() -> None:
    assert split_by_log([row("a", "90")], KNOWN, 900) == ([row("a", "90")], [])


def test_a_row_of_a_transaction_before_the_snapshot_is_really_different() -> None:
    assert split_by_log([row("a", "49")], KNOWN, 900)[0] == [row("a", "49")]


def test_a_row_of_an_unknown_transaction_is_in_flight() -> None:
    assert split_by_log([row("a", "91")], KNOWN, 900) == ([], [row("a", "91")])


def test_a_row_that_is_gone_at_the_source_is_open_until_something_later_was_applied() -> None:
    gone = row("a", None, source=False)
    assert split_by_log([gone], KNOWN, 501) == ([], [gone])
    assert split_by_log([gone], KNOWN, 500) == ([gone], [])


def test_a_difference_says_what_it_is() -> None:
    said = [row("a", None, source=False).what, row("a", None, gold=False).what, row("a", "1").what]
    assert said == ["missing at the source", "missing in gold", "different"]
