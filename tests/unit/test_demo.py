from pathlib import Path

import pytest

from lakehouse.demo import configuration, hints, of_the_shop, place_events, questions
from lakehouse.errors import ConfigurationError
from lakehouse.table import Table
from lakehouse.target import Target


def table(name: str, path: str = "shop") -> Table:
    source = {"format": "debezium", "path": path}
    return Table.model_validate({"table": name, "keys": ["id"], "source": source})


def test_the_captured_events_are_dropped_as_one_file(tmp_path: Path) -> None:
    file = place_events(Target(root=str(tmp_path)))
    assert file == tmp_path / "landing" / "shop" / "shop.jsonl"
    assert len(file.read_bytes().splitlines()) == 438


def test_events_that_lie_there_are_left_alone(tmp_path: Path) -> None:
    first = place_events(Target(root=str(tmp_path))).stat().st_mtime_ns
    assert place_events(Target(root=str(tmp_path))).stat().st_mtime_ns == first


def test_only_the_shops_tables_take_part() -> None:
    assert [t.table for t in of_the_shop([table("orders"), table("x", "other")])] == ["orders"]


def test_a_folder_without_the_shops_tables_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"source\.path: shop"):
        of_the_shop([table("x", "other")])


def test_only_questions_that_can_be_answered_are_asked() -> None:
    assert questions([table("orders")]) == []
    assert len(questions([table("orders"), table("order_items")])) == 1


def test_without_a_configuration_the_projects_own_is_taken(tmp_path: Path) -> None:
    assert (configuration(tmp_path) / "tables" / "orders.yml").is_file()


def test_the_hints_lead_to_the_same_lake() -> None:
    assert 'lakehouse sql --root /r "SELECT' in hints(" --root /r")
