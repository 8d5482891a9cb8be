from gold.views.merged import WaitingRows, render_merged


def test_waiting_rows_replace_those_of_their_key_once_they_are_due() -> None:
    waiting = WaitingRows("t1_pending", "t1_keys", ["id", "_deleted"], 600)
    text = render_merged("t1", ["id", "a b", "_deleted"], waiting, ["id"])
    due = "WHERE current_timestamp() >= _since + INTERVAL 600 SECONDS"
    assert text == (
        "(SELECT /*+ BROADCAST(waiting) */ held.`id`, held.`a b`, held.`_deleted`"
        f" FROM t1 AS held LEFT ANTI JOIN (SELECT `id` FROM t1_keys {due}) AS waiting"
        " ON held.`id` = waiting.`id`"
        f" UNION ALL SELECT `id`, NULL AS `a b`, `_deleted` FROM t1_pending {due})"
    )


def test_where_nothing_may_wait_everything_that_does_is_shown() -> None:
    text = render_merged("t1", ["id"], WaitingRows("t1_pending", "t1_keys", ["id"], 0), ["id"])
    assert text.endswith("UNION ALL SELECT `id` FROM t1_pending)")
