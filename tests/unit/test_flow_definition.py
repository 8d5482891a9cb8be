"""What a flow of AUTO CDC refuses before Spark works, and the conditions that it names."""

import re
from pathlib import Path
from typing import Any

import pytest

from cdc_lakehouse.flows.definition import CONDITIONS, AutoCdcError, Definition

FLOWS = Path("cdc_lakehouse/flows")
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"keys": []}, "AUTOCDC_EMPTY_KEYS"),
    ({"stored_as_scd_type": 3}, "AUTOCDC_SCD_TYPE"),
    ({"column_list": ["a"], "except_column_list": ["b"]}, "CANNOT_SET_TOGETHER"),
    ({"stored_as_scd_type": 2, "apply_as_truncates": "true"}, "CANNOT_SET_TOGETHER"),
    ({"track_history_column_list": ["a"]}, "CANNOT_SET_TOGETHER"),
]


@pytest.mark.parametrize(("options", "condition"), REFUSED)
def test_contradictory_options_are_refused(options: dict[str, Any], condition: str) -> None:
    with pytest.raises(AutoCdcError) as refused:
        Definition(**{"keys": ["id"], "sequence_by": "seq"} | options)
    assert refused.value.getCondition() == condition


def test_every_condition_is_in_the_reference() -> None:
    code = "".join(file.read_text() for file in sorted(FLOWS.glob("*.py")))
    raised = {*re.findall(r'AutoCdcError\(\s*"([\w.]+)"', code)} | {
        *re.findall(r'"(\w+_DRIFT)"', code)
    }
    checked = {*re.findall(r'"(NULL_KEY|NULL_SEQUENCE|BAD_VALUE)"', code)}
    assert raised | {f"AUTOCDC_MICROBATCH_VALIDATION.{reason}" for reason in checked} == {
        *CONDITIONS
    }
