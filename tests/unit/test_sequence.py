from silver.sequence import literal


def test_a_start_is_written_as_numbers_or_as_hex_text() -> None:
    assert literal([255, 1]) == "00000000000000FF/0000000000000001"
    assert literal("ff/1") == literal([255, 1])
