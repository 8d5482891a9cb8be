"""What a flow of AUTO CDC refuses before Spark works, and the conditions that it names."""

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import types as T

from cdc_lakehouse.flows.definition import CONDITIONS, AutoCdcError, Definition

FLOWS = Path("cdc_lakehouse/flows")
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"keys": []}, "AUTOCDC_EMPTY_KEYS"),
    ({"stored_as_scd_type": 3}, "AUTOCDC_SCD_TYPE"),
    (
        {"column_list": ["a"], "except_column_list": ["b"]},
        "AUTOCDC_BOTH_COLUMN_LIST_AND_EXCEPT_COLUMN_LIST",
    ),
    (
        {"ignore_null_updates": True, "ignore_null_updates_column_list": ["a"]},
        "CANNOT_SET_TOGETHER",
    ),
    ({"stored_as_scd_type": 2, "apply_as_truncates": "true"}, "CANNOT_SET_TOGETHER"),
    ({"track_history_column_list": ["a"]}, "CANNOT_SET_TOGETHER"),
]
BUILT: dict[str, Any] = {"keys": ["id"], "sequence_by": "seq", "stored_as_scd_type": 2}
DRIFTS: list[tuple[dict[str, Any], T.DataType, str]] = [
    ({"keys": ["id", "region"]}, T.LongType(), "KEY_SCHEMA_DRIFT"),
    ({"stored_as_scd_type": 1}, T.LongType(), "SCD_TYPE_DRIFT"),
    ({}, T.StringType(), "SEQUENCING_TYPE_DRIFT"),
    ({"track_history_column_list": ["a"]}, T.LongType(), "TRACK_HISTORY_DRIFT"),
]


@pytest.mark.parametrize(("options", "condition"), REFUSED)
def test_contradictory_options_are_refused(options: dict[str, Any], condition: str) -> None:
    with pytest.raises(AutoCdcError) as refused:
        Definition(**{"keys": ["id"], "sequence_by": "seq"} | options)
    assert refused.value.getCondition() == condition


@pytest.mark.parametrize(("options", "sequence", "condition"), DRIFTS)
def test_a_flow_of_another_kind_into_the_target_is_refused(
    options: dict[str, Any], sequence: T.DataType, condition: str
) -> None:
    known = Definition(**BUILT).to_properties(T.LongType())
    Definition(**BUILT).check_drift(known, T.LongType())
    with pytest.raises(AutoCdcError) as refused:
        Definition(**BUILT | options).check_drift(known, sequence)
    assert refused.value.getCondition() == f"AUTOCDC_INVALID_STATE.{condition}"


def test_every_condition_is_in_the_reference() -> None:
    code = "".join(file.read_text() for file in sorted(FLOWS.glob("*.py")))
    raised = {*re.findall(r'AutoCdcError\(\s*"([\w.]+)"', code)} | {
        *re.findall(r'"(AUTOCDC_INVALID_STATE\.\w+|AUTOCDC_\w+_SCHEMA|AUTOCDC_BOTH\w+)"', code)
    }
    checked = {*re.findall(r'"(NULL_KEY|NULL_SEQUENCE|BAD_VALUE)"', code)}
    assert raised | {f"AUTOCDC_MICROBATCH_VALIDATION.{reason}" for reason in checked} == {
        *CONDITIONS
    }
