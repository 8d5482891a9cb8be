from pathlib import Path
from typing import Any

import pytest
from databricks.bundles.alerts import Alert
from databricks.bundles.dashboards import Dashboard
from databricks.bundles.jobs import Job
from databricks.bundles.schemas import Schema
from databricks.bundles.sql_warehouses import SqlWarehouse
from databricks.bundles.volumes import Volume

from tests.bundle.conftest import PROJECT
from tests.bundle.reading import REFERENCE, read, resolved, targets, texts

MODELS: dict[str, Any] = {
    "alerts": Alert,
    "dashboards": Dashboard,
    "jobs": Job,
    "schemas": Schema,
    "sql_warehouses": SqlWarehouse,
    "volumes": Volume,
}
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
    bundle = read(project, target)
    ids = {name for name in bundle.known if name.endswith(".id")}
    known = {name: text for name, text in bundle.known.items() if name not in ids}
    resource = resolved(bundle.resources[kind][key], known)
    model = MODELS[kind].from_dict(resource)
    assert {name for text in texts(resource) for name in REFERENCE.findall(text)} <= ids
    assert set(resource) <= set(model.as_dict())


def test_a_field_that_databricks_does_not_know_is_found() -> None:
    with pytest.raises(ValueError, match="Unexpected field 'timeout'"):
        Job.from_dict({"name": "cdc", "timeout": 60})


def test_every_job_of_the_design_is_there(project: Path) -> None:
    assert set(read(project, "prod").jobs) == {
        "cdc",
        "cdc_arrival",
        "cdc_continuous",
        "cdc_schedule",
        "cdc_ticks",
        "dead_letter_replay",
        "maintenance",
        "quality",
        "rebuild",
    }
