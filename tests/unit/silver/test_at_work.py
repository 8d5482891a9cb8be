"""The progress of silver names the tables that are worked on, and no others."""

from silver.run import AtWork


def test_the_tables_at_work_are_named_and_those_that_are_done_counted() -> None:
    told: list[str] = []
    at_work = AtWork(told.append, 3)
    with at_work.working_on("slow"):
        with at_work.working_on("quick"):
            pass
        assert told[-1] == "silver slow, 1 of 3 done"
    assert told[:2] == ["silver slow, 0 of 3 done", "silver slow, quick, 0 of 3 done"]
    assert len(told) == 3
    AtWork(told.append, 1).working_on("alone").__enter__()
    assert told[-1] == "silver alone"
