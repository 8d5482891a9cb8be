import pytest

from silver.decode.values.sequences import (
    LONGEST,
    arrival_sequence,
    canonical_sequence,
    join_sections,
    literal_sequence,
    sequence_of,
    to_section,
    topic_sequence,
)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0" * 16),
        (255, "00000000000000FF"),
        (2**63 - 1, "7FFFFFFFFFFFFFFF"),
        (2**63, "8000000000000000"),
        (2**64 - 1, "FFFFFFFFFFFFFFFF"),
        (2**64, None),
        (-1, None),
        (-(2**63), None),
        (None, None),
    ],
)
def test_a_section_is_an_unsigned_64_bit_number_in_hex(
    number: int | None, text: str | None
) -> None:
    assert to_section(number) == text


@pytest.mark.parametrize(
    ("example", "older", "newer"),
    [
        ("example 1", "77", "7B"),
        ("example 2", "FFF/B", "FFF/ABC"),
        ("example 3", "BA/FFFFFFFF", "ABC"),
        ("example 4", "ABC", "FFF/ABC"),
    ],
)
def test_the_four_documented_comparisons_hold_for_plain_string_order(
    example: str, older: str, newer: str
) -> None:
    first, second = canonical_sequence(older), canonical_sequence(newer)
    assert first is not None
    assert second is not None
    assert first < second, example


def test_the_whole_documented_range_is_canonical_in_either_case() -> None:
    most = "/".join(["f" * 16] * 4)
    assert canonical_sequence("0/0/0/0") == "/".join(["0" * 16] * 4)
    assert canonical_sequence(most) == most.upper()
    assert len(most) == LONGEST
    assert canonical_sequence("18F2EBB6480") == "0000018F2EBB6480"


@pytest.mark.parametrize(
    "text",
    ["", "/", "1/", "/1", "1//2", "G", " 1", "1\n", "-1", "0x1", "1/2/3/4/5", "1" * 17, "\u0661"],
)
def test_malformed_text_has_no_canonical_form(text: str) -> None:
    assert canonical_sequence(text) is None


def test_joined_sections_are_none_when_one_of_them_is() -> None:
    assert join_sections(to_section(1), to_section(2)) == f"{1:016X}/{2:016X}"
    assert join_sections(to_section(1), None) is None
    assert sequence_of(1, -2) is None
    assert sequence_of(1, 2) == f"{1:016X}/{2:016X}"


def test_a_start_is_written_as_numbers_or_as_hex_text() -> None:
    assert literal_sequence([255, 1]) == "00000000000000FF/0000000000000001"
    assert literal_sequence("ff/1") == literal_sequence([255, 1])


def test_an_order_of_arrival_sorts_before_all_numbers_and_keeps_its_order() -> None:
    arrivals = [f"{1:08X}{0:06X}{0:010X}{row:08X}" for row in range(3)] + [f"{2:08X}" + "0" * 24]
    found = [arrival_sequence(arrival) for arrival in arrivals]
    assert found == sorted(set(found))
    assert all(len(one) == LONGEST for one in found)
    assert found[-1] < literal_sequence([1])


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ((8, 7, 900), (9, 3, 1)),
        ((8, 3, 900), (9, 7, 1)),
        ((8, 3, 1), (8, 3, 2)),
        ((None, 3, 900), (None, 7, 1)),
        ((None, 3, 1), (None, 3, 2)),
        ((-1, None, 5), (0, None, 6)),
        ((None, 3, 9), (1, 0, 0)),
    ],
)
def test_offsets_of_two_partitions_are_compared_by_time(
    older: tuple[int | None, ...], newer: tuple[int | None, ...]
) -> None:
    one, other = topic_sequence(*older) or "", topic_sequence(*newer) or ""

    assert "" < one < other < "0000000000000001"


def test_a_record_without_an_offset_has_no_place_in_a_topic() -> None:
    assert topic_sequence(8, 0, None) is None
    assert topic_sequence(8, 0, -1) is None
