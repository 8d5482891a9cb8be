from cdc_lakehouse.terminal.grid import cut_to_width, lay_out

LONG = "a description that goes on for much longer than a line of a terminal is wide, and on"


def test_what_fits_is_a_grid_with_numbers_to_the_right() -> None:
    lines = lay_out(["table", "rows"], [["orders", "12"], ["a", None], ["b", "1,200"]], 80)
    assert lines == ["table    rows", "──────  ─────", "orders     12", "a", "b       1,200"]


def test_long_texts_are_cut_and_numbers_and_times_are_not() -> None:
    time, number = "2026-01-31T12:00:00.000010Z", "123456789012345678901234567890"
    lines = lay_out(["t", "n", "text"], [[time, number, LONG]], 80)
    assert max(map(len, lines)) == 80
    assert time in lines[2] and number in lines[2] and lines[2].endswith("…")


def test_what_does_not_fit_side_by_side_is_a_block_per_record() -> None:
    columns = [f"column_{n}" for n in range(30)]
    lines = lay_out(columns, [[LONG] * 30, ["x"] * 30], 80)
    assert len(lines) == 62
    assert lines[0].startswith("── 1 ─") and lines[31].startswith("── 2 ─")
    assert lines[1].startswith("column_0   a description") and lines[1].endswith("…")
    assert max(map(len, lines)) == 80


def test_no_column_is_narrower_than_twelve_unless_its_values_are() -> None:
    lines = lay_out([f"c{n}" for n in range(5)], [[LONG] * 5], 70)
    assert [len(part) for part in lines[1].split("  ")] == [12] * 5
    assert lay_out([f"c{n}" for n in range(5)], [[LONG] * 5], 60)[0].startswith("── 1 ")


def test_without_a_width_nothing_is_shortened() -> None:
    assert LONG * 9 in lay_out(["text"], [[LONG * 9]], None)[2]


def test_a_value_cannot_break_a_line_or_move_the_cursor() -> None:
    assert lay_out(["a"], [["x\ny\x1b[31m\tz"]], 80)[2] == "x⏎y·[31m z"


def test_a_wide_letter_takes_two_cells() -> None:
    assert cut_to_width("日本語日本語", 8) == "日本語…"
    assert lay_out(["a", "b"], [["日本", "x"]], 80)[2] == "日本  x"


def test_no_column_is_no_line() -> None:
    assert lay_out([], [], 80) == []


def test_null_and_empty_text_look_different() -> None:
    assert lay_out(["a", "b"], [["", "x"], [None, "x"]], 80)[2:] == ['""  x', "    x"]


def test_times_lose_zeros_where_all_of_a_column_have_them() -> None:
    rows = [["2026-01-31T12:00:00.000000Z", "2026-01-31T12:00:00.000000"], [None] * 2]
    assert lay_out(["a", "b"], rows, 80)[2].split() == [
        "2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00",
    ]
    rows[1] = ["2026-01-31T12:00:00.000001Z", None]
    assert "00.000000Z" in lay_out(["a", "b"], rows, 80)[2]
    assert "00.000000Z" in lay_out(["a", "b"], rows[:1], None)[2]


def test_names_of_rules_go_on_in_the_next_line() -> None:
    rule = "expect_column_values_to_be_between"
    lines = lay_out(["n", "expectation", "text"], [["1", rule, LONG]], 40)
    assert "".join(line[3:].split("  ")[0].strip() for line in lines[2:]) == rule
    assert max(map(len, lines)) <= 40
