import importlib
import warnings
from types import ModuleType

import pytest

from silver.expectations.rules import ALWAYS_ALLOWED, EXPECTATIONS, SET_BY_QUALITY

NOT_ARGUMENTS = {*ALWAYS_ALLOWED, *SET_BY_QUALITY, "severity", "version", "library_metadata"}


@pytest.fixture(scope="module")
def registry() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("great_expectations")
        return importlib.import_module("great_expectations.expectations.registry")


def test_the_names_are_those_of_the_installed_great_expectations(registry: ModuleType) -> None:
    assert set(EXPECTATIONS) == set(registry.list_registered_expectation_implementations())


def test_the_arguments_are_those_of_the_installed_great_expectations(registry: ModuleType) -> None:
    for name, spelling in EXPECTATIONS.items():
        fields = set(registry.get_expectation_impl(name).__fields__) - NOT_ARGUMENTS
        assert (name, set(spelling.arguments)) == (name, fields)


def test_the_required_arguments_are_those_of_the_installed_great_expectations(
    registry: ModuleType,
) -> None:
    for name, spelling in EXPECTATIONS.items():
        fields = registry.get_expectation_impl(name).__fields__.items()
        required = {field for field, model in fields if model.required}
        said = {argument for argument, kind in spelling.arguments.items() if kind.endswith("!")}
        assert (name, said) == (name, required)


def test_every_row_level_expectation_has_sql_and_no_other_has() -> None:
    assert [name for name, r in EXPECTATIONS.items() if bool(r.sql) != (r.scope == "row")] == []
