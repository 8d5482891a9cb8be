"""Laws whose units are known without a query."""

from silver.audit.row_checks import check_counts
from silver.audit.verify import Law, judge_laws


def test_a_run_whose_outcomes_do_not_add_up_breaks_the_law() -> None:
    runs = [
        ("a", {"records": 2, "inserted": 1, "duplicate": 1, "ties": 1}),
        ("b", {"records": 2, "inserted": 1}),
        ("c", dict[str, int]()),
    ]
    broken = ["run b: 2 records, 1 in classes"]
    assert judge_laws({"adds up": check_counts(runs)}) == [Law("adds up", 3, 1, broken)]


def test_of_many_units_that_break_a_law_five_are_named() -> None:
    units = [(f"{at}", at % 2 == 0) for at in range(20)]
    assert judge_laws({"even": units}) == [Law("even", 20, 10, ["0", "2", "4", "6", "8"])]
