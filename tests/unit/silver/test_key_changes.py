from silver.changelog.key_changes import Move, find_old_keys


def moves(*rows: tuple[int, int, int]) -> list[Move]:
    return [Move(to, old, bytes([at])) for to, old, at in rows]


def test_a_row_that_moved_several_times_comes_from_every_key_before() -> None:
    known = moves((2, 1, 1), (3, 2, 2), (4, 3, 3))
    found = find_old_keys(known[2:], known)
    assert found == {(4, 3): b"\x03", (4, 2): b"\x02", (4, 1): b"\x01"}


def test_only_what_moved_to_the_old_key_before_counts() -> None:
    known = moves((2, 1, 5), (3, 2, 4))
    assert find_old_keys(known[1:], known) == {(3, 2): b"\x04"}


def test_a_row_that_goes_back_and_forth_ends_the_search() -> None:
    known = moves((2, 1, 1), (1, 2, 2), (2, 1, 3))
    assert find_old_keys(known[2:], known) == {(2, 1): b"\x03", (2, 2): b"\x02"}


def test_the_later_of_two_moves_from_a_key_says_up_to_where_it_matters() -> None:
    known = moves((2, 1, 1), (3, 1, 5), (2, 3, 7))
    assert find_old_keys([known[0], known[2]], known)[2, 1] == b"\x05"
