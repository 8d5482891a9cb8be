"""Expressions of SQL in the YAML: what is no expression is seen without Spark, and nothing else."""

import pytest

from lakehouse.sql_text import find_sql_fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("op == d and", "nothing follows and (character 9)"),
        ("op = 'd", "' (character 6) is not closed"),
        ("(op = 'd'", "( (character 1) is not closed"),
        ("op = 'd')", ") (character 9) closes nothing"),
        ("op in ('d']", "] (character 11) closes nothing"),
        ("and op = 'd'", "nothing stands before and (character 1)"),
        ("op = = 'd'", "nothing stands before = (character 6)"),
        ("a = 1 and or b = 2", "nothing stands before or (character 11)"),
        ("coalesce(a =, 1)", "nothing follows = (character 12)"),
        ("(not)", "nothing follows not (character 2)"),
        ("op = 'd';", "; (character 9) ends it"),
        ("a -- and b", None),
        ("", "nothing in it"),
        ("op = 'it''s' AND `a and` IS NOT NULL", None),
        ("CASE WHEN a = -1 THEN NOT b ELSE c >= 2 END", None),
        ("cast(a AS array<array<int>>) IS NULL", None),
        ("count(*) > 1", None),
        ("payload.in = 'x' or payload.and", None),
        ("a NOT IN ('D', 'd') AND b NOT BETWEEN 1 AND 2", None),
        ("like(a, 'b%') OR rlike(a, 'c')", None),
        ("exists(tags, t -> t = 'x')", None),
        ("a /* and */ <=> 'x'", None),
        ("to_timestamp(at, 'yyyy-MM-dd''T''HH')", None),
        ("deleted", None),
        ('op = "D"', None),
        ("a::int = 0", ":: (character 2) fails on what it cannot convert; write CAST(x AS type)"),
        ("a = 'b::int'", None),
    ],
)
def test_a_fault_is_named_with_its_character(text: str, fault: str | None) -> None:
    assert find_sql_fault(text) == fault
