"""Many tables from one file: which topics become tables, and what each of them says."""

import json
import re
from pathlib import Path
from typing import NoReturn

import pytest

from cdc_lakehouse.cli.options import Chosen, load_chosen
from cdc_lakehouse.drafts.topic_notes import Search
from lakehouse.config.records.many_tables import ManyTables
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import ManyConfigurationErrors

MANY = """
tables: shop.public.*
except: [shop.public.audit_*]
source: {format: debezium, path: shop}
stored_as_scd_type: 2
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "conf" / "tables").mkdir(parents=True)
    (tmp_path / "conf" / "targets").mkdir()
    (tmp_path / "conf" / "targets" / "local.yml").write_text(f"kind: local\nroot: {tmp_path}\n")
    (tmp_path / "conf" / "tables" / "shop.yml").write_text(MANY)
    return tmp_path


def no_brokers(target: Target) -> NoReturn:
    raise AssertionError(target)


def land(project: Path, topic: str, key: dict[str, object] | None, folder: str = "") -> None:
    place = project / "landing" / "shop" / folder
    place.mkdir(parents=True, exist_ok=True)
    value = {"op": "c", "before": None, "after": {"id": 1, "note": "x"}, "source": {}}
    record = {"topic": topic, "partition": 0, "offset": 1, "key": key, "value": value}
    (place / f"{topic}.json").write_text(json.dumps(record) + "\n")


def load(project: Path, *only: str, search: Search | None = None) -> dict[str, Table]:
    _, tables = load_chosen(Chosen(conf=project / "conf", only=only), [], search)
    return {table.table: table for table in tables}


@pytest.mark.parametrize("in_folders", [False, True])
def test_each_topic_is_a_table_with_the_key_of_its_records(
    project: Path, in_folders: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    keys: dict[str, dict[str, object] | None] = {
        "shop.public.orders": {"id": 1},
        "shop.public.items": {"payload": {"order_id": 1, "line": 2}},
        "shop.public.audit_log": {"id": 1},
        "other.public.users": {"id": 1},
        "shop.public.notes": None,
    }
    for topic, key in keys.items():
        land(project, topic, key, topic if in_folders else "")
    tables = load(project)
    assert {name: table.keys for name, table in tables.items()} == {
        "items": ["order_id", "line"],
        "orders": ["id"],
    }
    source, topic = tables["orders"].feeds[0], "shop.public.orders"
    read = (f"shop/{topic}", None) if in_folders else ("shop", topic)
    assert (source.path, source.topic, tables["orders"].stored_as_scd_type) == (*read, 2)
    told = capsys.readouterr().err
    assert "notes: waits, as no record of shop.public.notes has a key" in " ".join(told.split())


def test_a_file_of_one_table_counts_more_key_by_key(project: Path) -> None:
    for name in ("orders", "notes"):
        land(project, f"shop.public.{name}", {"id": 1} if name == "orders" else None)
    own = project / "conf" / "tables" / "orders.yml"
    own.write_text("table: orders\nstored_as_scd_type: 1\ncomment: mine\n")
    (project / "conf" / "tables" / "notes.yml").write_text("table: notes\nkeys: [note]\n")
    tables = load(project)
    orders = tables["orders"]
    assert (orders.keys, orders.comment, orders.stored_as_scd_type) == (["id"], "mine", 1)
    assert (tables["notes"].keys, tables["notes"].stored_as_scd_type) == (["note"], 2)
    assert [*load(project, "orders")] == ["orders"]


def test_a_table_stays_when_its_files_are_gone(project: Path) -> None:
    land(project, "shop.public.orders", {"id": 1})
    assert [*load(project, search=Search(no_brokers))] == ["orders"]
    (project / "landing" / "shop" / "shop.public.orders.json").unlink()
    land(project, "shop.public.items", {"id": 1})
    assert [*load(project)] == ["items", "orders"]


def test_two_topics_of_one_name_are_refused(project: Path) -> None:
    for schema in ("a", "b"):
        land(project, f"shop.{schema}.orders", {"id": 1})
    file = project / "conf" / "tables" / "shop.yml"
    file.write_text("tables: '*'\nsource: {format: debezium, path: shop}\n")
    with pytest.raises(ManyConfigurationErrors, match="orders twice"):
        load(project)
    file.write_text(f"name: '{{schema}}_{{table}}'\n{file.read_text()}")
    assert [*load(project)] == ["a_orders", "b_orders"]


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("{format: debezium}", "a source with kafka, or with a path"),
        ("{format: debezium, kafka: {topic: x, bootstrap_servers: 'k:1'}}", "topic with tables"),
        ("{format: debezium, path: shop, topic: x}", "topic with tables"),
        ("{format: debezium, kafka: {}}", "source with kafka"),
        ("{format: debezium, kafka: {servers: 'k:1'}}", "bootstrap_servers"),
    ],
)
def test_a_source_without_topics_of_its_own_is_needed(
    project: Path, source: str, wrong: str
) -> None:
    (project / "conf" / "tables" / "shop.yml").write_text(f"tables: shop.*\nsource: {source}\n")
    with pytest.raises(ManyConfigurationErrors, match=wrong):
        load(project)


def test_topics_of_no_table_are_left_out() -> None:
    many = ManyTables.model_validate({"tables": ["shop.*", "public.n?[ab]"]})
    for topic in ("shop.public.orders", "shop.public.transaction", "x.public.nob"):
        assert many.takes(topic)
        assert re.fullmatch(many.expression, topic)
    for topic in ("shop.transaction", "shop.public.dbz_signal", "shop.schema-changes"):
        assert not many.takes(topic)
    assert not re.fullmatch(many.expression, "other.public.orders")
