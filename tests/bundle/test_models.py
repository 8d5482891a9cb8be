from pathlib import Path

import pytest

from tests.bundle.lint.models import check_resource
from tests.bundle.lint.reading import read, targets
from tests.helpers.wheel import PROJECT

RESOURCES = [
    pytest.param(target, kind, key, id=f"{target}-{kind}.{key}")
    for target in targets(PROJECT)
    for kind, declared in read(PROJECT, target).resources.items()
    for key in declared
]


@pytest.mark.parametrize(("target", "kind", "key"), RESOURCES)
def test_a_resource_has_only_fields_and_types_that_databricks_knows(
    project: Path, target: str, kind: str, key: str
) -> None:
    assert list(check_resource(read(project, target), kind, key)) == []


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("timeout", 60, "Unexpected field 'timeout'"),
        ("tasks", "bronze", "bronze"),
        ("description", "${resources.jobs.cdx.id}", "nothing is known of ${resources.jobs.cdx.id}"),
    ],
)
def test_what_databricks_does_not_know_is_found(
    project: Path, field: str, value: object, found: str
) -> None:
    bundle = read(project, "dev")
    bundle.jobs["cdc"][field] = value
    [finding] = check_resource(bundle, "jobs", "cdc")
    assert finding.place == "jobs.cdc" and found in finding.message


def test_every_job_of_the_design_is_there(project: Path) -> None:
    assert set(read(project, "prod").jobs) == {
        "cdc",
        "cdc_arrival",
        "cdc_schedule",
        "dead_letter_replay",
        "maintenance",
        "quality",
        "rebuild",
        "source_check",
    }
