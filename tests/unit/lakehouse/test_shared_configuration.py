"""`conf/defaults.yml`, a target's `defaults`, and the lists of expectations in `conf/rules`."""

from pathlib import Path

import pytest

from lakehouse.config.loading import load_tables, load_target
from lakehouse.config.table import Table
from lakehouse.errors import ConfigurationError, ManyConfigurationErrors

ORDERS = "table: orders\nkeys: [id]\nsource: {format: debezium, path: shop}\n"
NOT_NULL = "- {type: expect_column_values_to_not_be_null, column: email}\n"


def conf(folder: Path, **files: str) -> Path:
    """A configuration folder; `rules_contact` is rules/contact.yml."""
    texts = {"tables_orders": ORDERS, "targets_local": "kind: local\nroot: .\n", **files}
    for name, text in texts.items():
        file = folder / f"{name.replace('_', '/', 1)}.yml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def orders(folder: Path, target: str = "local") -> Table:
    found = load_tables(folder, of_target=load_target(folder, target).defaults)
    return next(table for table in found if table.table == "orders")


def test_a_table_has_what_it_does_not_say_otherwise(tmp_path: Path) -> None:
    text = "on_delete: flag\ntombstone_retention: 7 days\nschema_changes: {widen: ignore}\n"
    own = "tombstone_retention: 1 day\nschema_changes: {add_column: ignore}\n"
    table = orders(conf(tmp_path, defaults=text, tables_orders=ORDERS + own))
    assert (table.on_delete, table.tombstone_retention) == ("flag", "1 day")
    assert (table.schema_changes.widen, table.schema_changes.add_column) == ("ignore", "ignore")


def test_files_may_end_with_yaml_and_two_of_a_name_are_refused(tmp_path: Path) -> None:
    folder = conf(tmp_path, defaults="on_delete: flag\n", tables_orders=ORDERS)
    (folder / "defaults.yml").rename(folder / "defaults.yaml")
    (folder / "targets").mkdir(exist_ok=True)
    (folder / "targets" / "own.yaml").write_text("kind: local\nroot: .\n")
    assert orders(folder, "own").on_delete == "flag"
    (folder / "defaults.yml").write_text("on_delete: remove\n")
    with pytest.raises(ConfigurationError, match=r"keep one of them"):
        orders(folder, "own")


def test_a_target_goes_before_the_defaults_and_after_the_table(tmp_path: Path) -> None:
    prod = "kind: local\nroot: .\ndefaults: {on_delete: remove, max_dead_letters: 5}\n"
    own = "max_dead_letters: 9\n"
    folder = conf(
        tmp_path, defaults="on_delete: flag\n", targets_prod=prod, tables_orders=ORDERS + own
    )
    assert orders(folder).on_delete == "flag"
    assert (orders(folder, "prod").on_delete, orders(folder, "prod").max_dead_letters) == (
        "remove",
        9,
    )


@pytest.mark.parametrize(
    ("defaults", "table", "key"),
    [
        (
            "max_staleness: 1 hour",
            "source: {format: snapshot, path: o, mode: full}",
            "max_staleness",
        ),
        ("max_staleness: 1 hour", "consistency_group: g", "max_staleness"),
        ("sequence_by: seq", "", "sequence_by"),
        ("column_list: [id]", "except_column_list: [a]", "column_list"),
        ("stored_as_scd_type: 2", "keys: []", "stored_as_scd_type"),
        ("track_history_column_list: [a]", "", "track_history_column_list"),
        ("schema_changes: {widen: fail}", "source: {format: ydb, path: o}", None),
    ],
)
def test_a_default_that_a_table_cannot_have_is_left_out(
    tmp_path: Path, defaults: str, table: str, key: str | None
) -> None:
    named = {line.partition(":")[0] for line in table.splitlines()}
    kept = [line for line in ORDERS.splitlines() if line.partition(":")[0] not in named]
    found = orders(conf(tmp_path, defaults=defaults, tables_orders="\n".join([*kept, table])))
    assert key not in found.model_fields_set
    assert found.schema_changes.widen == "apply"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("keys: [id]", "keys"),
        ("on_delte: flag", "did you mean on_delete?"),
        ("max_dead_letters: many", "max_dead_letters"),
        ("- a", "a mapping of keys"),
    ],
)
def test_wrong_defaults_are_named_with_their_file(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises((ConfigurationError, ManyConfigurationErrors)) as found:
        orders(conf(tmp_path, defaults=text))
    assert "defaults.yml" in str(found.value) and said in str(found.value)
    target = f"kind: local\nroot: .\ndefaults: {{{text}}}\n"
    with pytest.raises((ConfigurationError, ManyConfigurationErrors), match=r"bad\.yml"):
        load_target(conf(tmp_path, targets_bad=target), "bad")


def test_empty_defaults_are_none(tmp_path: Path) -> None:
    assert orders(conf(tmp_path, defaults="# nothing\n")).on_delete == "remove"


def test_a_table_has_the_rules_that_it_uses_behind_its_own(tmp_path: Path) -> None:
    own = "use: [contact]\nexpectations: [{type: expect_column_values_to_be_unique, column: id}]\n"
    table = orders(conf(tmp_path, rules_contact=NOT_NULL, tables_orders=ORDERS + own))
    assert [rule.arguments["column"] for rule in table.expectations] == ["id", "email"]


def test_defaults_may_use_rules(tmp_path: Path) -> None:
    table = orders(conf(tmp_path, rules_contact=NOT_NULL, defaults="use: [contact]\n"))
    assert len(table.expectations) == 1


@pytest.mark.parametrize(
    ("rules", "use", "said"),
    [
        (NOT_NULL, "contacts", r"use\[0\].*\n?.*contacts(.|\n)*did you mean contact\?"),
        ("a: b", "contact", "contact.yml(.|\n)*a list of expectations"),
        ("- {type: not_null}", "contact", r"contact.yml(.|\n)*expectations\[0\].type"),
    ],
)
def test_wrong_rules_are_named(tmp_path: Path, rules: str, use: str, said: str) -> None:
    folder = conf(tmp_path, rules_contact=rules, tables_orders=f"{ORDERS}use: [{use}]\n")
    with pytest.raises((ConfigurationError, ManyConfigurationErrors), match=said):
        orders(folder)
