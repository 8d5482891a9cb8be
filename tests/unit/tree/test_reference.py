"""The generated pages of the reference are those of the code, and leave nothing out."""

import re
import runpy
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel, create_model
from typer.main import get_command

from cdc_lakehouse.cli.commands import app
from gold.report.story import DEAD_LETTER, KINDS
from lakehouse import errors
from lakehouse.config import csv_options, table, target
from lakehouse.config.unpacking import unpack_table
from silver.changelog.dead_letter_list import NO_TOPIC
from silver.changelog.late_changes import TOO_LATE
from silver.contract import ACCOUNT_NOTES, DEAD_LETTER_REASONS, RECORD_OUTCOMES
from silver.decode import change
from silver.fold.rules import OUTCOMES
from silver.snapshot_source.comparison import DUPLICATE

DOCS = Path(__file__).parents[3] / "docs"
GENERATOR = runpy.run_path(str(DOCS / "generate_reference.py"))
PAGES, KEYS = GENERATOR["pages"](), GENERATOR["KEYS"]
TABLES = {
    f"{page.relative_to(DOCS)}:{at}": text
    for page in sorted(DOCS.rglob("*.md"))
    for at, text in enumerate(re.findall(r"```yaml\n(table: .*?)```", page.read_text(), re.DOTALL))
    if re.search(r"^sources?:", text, re.MULTILINE)
}
"""The tables that pages show whole, by page and place."""
MODELS = [
    model
    for module in (csv_options, table, target)
    for model in vars(module).values()
    if isinstance(model, type) and issubclass(model, BaseModel)
]


@pytest.mark.parametrize("place", TABLES)
def test_a_table_on_a_page_is_one_that_validate_takes(place: str) -> None:
    assert unpack_table(yaml.safe_load(TABLES[place]), place).feeds


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    written = (DOCS / "reference" / name).read_text(encoding="utf-8")
    assert written == PAGES[name], "run `make docs` and commit the page"


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_key_has_an_example_that_its_model_takes(model: type[BaseModel]) -> None:
    """The example, the default and the page that says more stand beside each key."""
    if not model.model_fields or model is target.Aside:
        return
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    assert fields.keys() <= KEYS[model.__name__].keys()
    for key in fields:
        example, page = KEYS[model.__name__][key]
        one = create_model("One", value=(fields[key].annotation, fields[key]))
        read = one.model_validate({fields[key].alias or "value": yaml.safe_load(example)[key]})
        assert read.model_dump()["value"] is not None
        assert (DOCS / page).is_file()


def test_every_key_of_the_yaml_is_described() -> None:
    bare = [
        f"{model.__name__}.{name}"
        for model in MODELS
        for name, field in model.model_fields.items()
        if not field.description and model.__name__ not in ("Aside", "BaseModel")
    ]
    assert bare == []


def test_every_command_and_option_is_explained() -> None:
    page = PAGES["commands.md"]
    names = set(get_command(app).commands) - {"dead-letters"}
    names |= {f"dead-letters {name}" for name in ("list", "replay", "acknowledge", "edit")}
    headings = {line.removeprefix("### lakehouse ") for line in page.splitlines() if "###" in line}
    assert headings == names
    assert [line for line in page.splitlines() if line.endswith("|  |")] == []


def test_every_exit_code_is_explained() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    codes = {kind.exit_code for kind in kinds if issubclass(kind, errors.LakehouseError)}
    assert GENERATOR["EXIT_CODES"].keys() == codes | {0}


def test_every_reason_of_a_dead_letter_is_explained() -> None:
    of_decoders = {v for k, v in vars(change).items() if k.isupper() and isinstance(v, str)}
    assert DEAD_LETTER_REASONS.keys() == {*of_decoders, TOO_LATE, DUPLICATE, NO_TOPIC, "rule"}


def test_every_outcome_that_the_report_knows_is_explained() -> None:
    explained = {name.partition(":")[0] for name in RECORD_OUTCOMES}
    assert explained == {kind.name for kind in KINDS} | {DEAD_LETTER}
    assert OUTCOMES.keys() <= RECORD_OUTCOMES.keys()
    assert not RECORD_OUTCOMES.keys() & ACCOUNT_NOTES.keys()
