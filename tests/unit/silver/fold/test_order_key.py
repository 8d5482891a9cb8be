from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from silver.fold.order_key import make_order, order_literal, sequence_of, split_order

SECTIONS = st.integers(0, 2**64 - 1) | st.integers(0, 3)
SEQUENCES = st.lists(SECTIONS, min_size=1, max_size=5)
ARRIVALS = st.binary(max_size=18) | st.just(b"")


def text(sections: list[int]) -> str:
    return "/".join(f"{section:016X}" for section in sections)


@given(st.lists(st.tuples(SEQUENCES, ARRIVALS), min_size=2, max_size=2))
def test_bytes_compare_as_sections_and_then_arrivals_do(
    changes: list[tuple[list[int], bytes]],
) -> None:
    one, other = changes
    keys = [make_order(text(sections), arrival.hex()) for sections, arrival in changes]
    assert (keys[0] < keys[1]) == (one < other)


@given(SEQUENCES, ARRIVALS)
def test_an_order_key_gives_back_its_parts(sections: list[int], arrival: bytes) -> None:
    order = make_order(text(sections), arrival.hex())
    assert split_order(order) == (text(sections), arrival.hex().upper())
    assert sequence_of(order) == make_order(text(sections))


def test_a_prefix_sorts_before_the_sequence_that_it_begins_whatever_the_arrival() -> None:
    short, long = text([5]), text([5, 0])
    arrivals = ("", "00", "01", "FF" * 18)
    assert all(make_order(short, a) < make_order(long, b) for a, b in product(arrivals, arrivals))


def test_what_follows_a_slash_in_an_arrival_does_not_count() -> None:
    assert make_order(text([1]), "0A0B/FFFF") == make_order(text([1]), "0A0B")


def test_an_order_key_is_a_literal_of_sql() -> None:
    assert order_literal(make_order(text([1]), "0A")) == "X'010000000000000001000A'"
