from pathlib import Path

import pytest
import yaml

from lakehouse.config.target import Target
from tests.bundle.conftest import PROJECT
from tests.bundle.lint.reading import read, resolved, targets


@pytest.mark.parametrize("name", targets(PROJECT))
def test_a_target_of_the_bundle_and_its_file_in_conf_name_the_same_places(
    project: Path, name: str
) -> None:
    bundle = read(project, name)
    target = Target(name=name, **yaml.safe_load((project / f"conf/targets/{name}.yml").read_text()))
    schemas = {key: schema["name"] for key, schema in bundle.resources["schemas"].items()}
    known = {key: resolved(text, bundle.known) for key, text in bundle.known.items()}
    assert target.kind == "databricks"
    assert target.catalog == known["var.catalog"]
    assert target.schemas.model_dump() == schemas
    assert target.landing == known["resources.volumes.landing.volume_path"]
    assert target.checkpoints == known["resources.volumes.checkpoints.volume_path"]


def test_every_databricks_target_in_conf_is_a_target_of_the_bundle(project: Path) -> None:
    files = {
        path.stem: yaml.safe_load(path.read_text()) for path in project.glob("conf/targets/*.yml")
    }
    assert {name for name, file in files.items() if file.get("kind") == "databricks"} == set(
        targets(project)
    )
