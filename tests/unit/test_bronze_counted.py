from bronze.counted import News, Records, total


def test_batches_are_summed_and_the_newest_that_holds_a_record_counts() -> None:
    written: list[tuple[int, Records | None]] = [(4, {"a": 1}), (5, {"a": 2, None: 1}), (6, {})]
    assert total(3, written) == News(5, {"a": 3, None: 1})


def test_without_a_batch_nothing_is_new() -> None:
    assert total(3, []) == News(3, {})


def test_one_batch_that_did_not_tell_leaves_all_to_be_asked_for() -> None:
    assert total(3, [(4, {"a": 1}), (5, None)]) is None
