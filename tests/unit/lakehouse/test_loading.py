import json
from pathlib import Path

import pytest

from lakehouse.config.loading import load_tables, load_target
from lakehouse.config.unpacking import table_schema, unpack_table
from lakehouse.errors import ConfigurationError, ManyConfigurationErrors

GOOD = "table: {name}\nsource: {{format: debezium, path: shop}}\nkeys: [id]\n"


def conf(root: Path, **files: str) -> Path:
    (root / "tables").mkdir()
    (root / "targets").mkdir()
    for name, text in files.items():
        (root / "tables" / f"{name}.yml").write_text(text)
    (root / "targets" / "local.yml").write_text("kind: local\nroot: /somewhere\n")
    return root


def problems_of(document: object) -> list[tuple[str, str]]:
    with pytest.raises(ManyConfigurationErrors) as caught:
        unpack_table(document, "t.yml")
    return [(error.key, str(error)) for error in caught.value.errors]


def test_tables_come_by_name_whatever_their_files_are_called(tmp_path: Path) -> None:
    folder = conf(tmp_path, a=GOOD.format(name="z"), b=GOOD.format(name="m"))
    assert [table.table for table in load_tables(folder)] == ["m", "z"]


def test_only_the_named_tables_are_chosen(tmp_path: Path) -> None:
    folder = conf(tmp_path, a=GOOD.format(name="a"), b=GOOD.format(name="b"))
    assert [table.table for table in load_tables(folder, ["b"])] == ["b"]


def test_a_misspelt_table_on_the_command_line_gets_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="did you mean orders"):
        load_tables(conf(tmp_path, a=GOOD.format(name="orders")), ["order"])


def test_errors_of_all_files_come_together(tmp_path: Path) -> None:
    folder = conf(tmp_path, a="table: a\n", b=": :\n", c="", d=GOOD.format(name="d"))
    with pytest.raises(ManyConfigurationErrors) as caught:
        load_tables(folder)
    assert [(Path(error.file).name, error.key) for error in caught.value.errors] == [
        ("a.yml", "keys"),
        ("b.yml", "line 1"),
        ("c.yml", "(file)"),
    ]


def test_two_files_with_one_table_are_both_named(tmp_path: Path) -> None:
    folder = conf(tmp_path, a=GOOD.format(name="t"), b=GOOD.format(name="T"))
    with pytest.raises(ManyConfigurationErrors) as caught:
        load_tables(folder)
    assert [Path(error.file).name for error in caught.value.errors] == ["a.yml", "b.yml"]


def test_a_name_that_the_lakehouse_uses_beside_another_table_is_refused(tmp_path: Path) -> None:
    folder = conf(tmp_path, a=GOOD.format(name="t"), b=GOOD.format(name="t_history"))
    with pytest.raises(ManyConfigurationErrors, match="does not use itself"):
        load_tables(folder)


def test_a_key_twice_in_one_file_is_refused_with_its_line(tmp_path: Path) -> None:
    folder = conf(tmp_path, a=GOOD.format(name="t") + "keys: [other]\n")
    with pytest.raises(ManyConfigurationErrors, match=r"line 4\n  found:    the key keys a second"):
        load_tables(folder)


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="at least one table"):
        load_tables(tmp_path)


def test_a_misspelt_key_gets_its_dotted_place_and_the_nearest_spelling() -> None:
    document = {"table": "t", "keys": ["id"], "source": {"format": "ydb", "path": "p", "topc": "x"}}
    [(key, text)] = problems_of(document)
    assert (key, "did you mean topic?" in text) == ("source.topc", True)


def test_a_misspelt_key_inside_a_list_names_its_index() -> None:
    groups = [
        {"sequence_by": "v", "columns": []},
        {"sequence_by": "v", "colums": [], "columns": []},
    ]
    source = {"format": "ydb", "path": "p"}
    found = problems_of({"table": "t", "keys": ["id"], "source": source, "sequence_groups": groups})
    assert [key for key, _ in found] == ["sequence_groups[1].colums"]


def test_a_wrong_choice_gets_the_nearest_one() -> None:
    source = {"format": "debezim", "path": "p"}
    [(key, text)] = problems_of({"table": "t", "keys": ["id"], "source": source})
    assert (key, "did you mean debezium?" in text) == ("source.format", True)


@pytest.mark.parametrize(
    ("source", "key", "words"),
    [
        ({"path": "p"}, "source.format", "add format"),
        ("shop", "source", "a mapping"),
        ({"format": None, "path": "p"}, "source.format", "or 'snapshot'"),
        ({"format": "csv", "path": "p"}, "source.format", "write format: rows and file_format"),
        ({"format": "snapshot", "path": "p"}, "source.mode", "add mode: full or delta"),
        ({"format": "rows", "path": "p", "mode": "full"}, "source.mode", "mode only with snapshot"),
        ({"format": "ydb", "path": "p", "mode": "full"}, "source.mode", "would have no effect"),
        ({"format": "snapshot", "path": "p", "mode": "fall"}, "source.mode", "did you mean full?"),
        (
            {"format": "rows", "kafka": {"tpic": "t", "topic": "t", "bootstrap_servers": "h:1"}},
            "source.kafka.tpic",
            "did you mean topic?",
        ),
    ],
)
def test_a_source_is_checked_by_its_format(source: object, key: str, words: str) -> None:
    [(found, text)] = problems_of({"table": "t", "keys": ["id"], "source": source})
    assert (found, words in text) == (key, True), text


def test_an_editor_offers_what_the_format_of_a_source_takes() -> None:
    schema = json.loads(table_schema())
    offered = {name: set(keys["properties"]) for name, keys in schema["$defs"].items()}
    assert {"feed_mode", "kafka"} <= offered["YdbSource"]
    assert not {"csv", "mode", "envelope", "delta"} & offered["YdbSource"]
    assert schema["$defs"]["SnapshotSource"]["required"] == ["mode", "format"]
    by_format = schema["properties"]["source"]["anyOf"][0]["discriminator"]["mapping"]
    assert by_format["rows"] == "#/$defs/RowsSource"


def test_an_option_that_a_format_does_not_take_has_its_default() -> None:
    document = {"table": "t", "keys": ["id"], "source": {"format": "ydb", "path": "p"}}
    feed = unpack_table(document, "t.yml").feeds[0]
    assert (feed.delta, feed.csv.header, feed.value_format) == (None, True, "json")
    assert not hasattr(feed, "no_option")


def test_the_branches_of_a_union_are_one_problem() -> None:
    source = {"format": "rows", "path": "p"}
    document = {"table": "t", "keys": ["id"], "source": source, "sequence_by": 3}
    [(key, text)] = problems_of(document)
    assert (key, "a text, or a list" in text) == ("sequence_by", True)


def test_a_column_may_be_its_type_alone() -> None:
    source = {"format": "ydb", "path": "p"}
    document = {"table": "t", "keys": ["id"], "source": source, "columns": {"a": "int"}}
    assert unpack_table(document, "t.yml").columns["a"].type == "int"


def test_a_check_of_another_layer_speaks_like_the_rest() -> None:
    source = {"format": "ydb", "path": "p"}
    line = "expectations[0].column: found 3, expected a column"
    with pytest.raises(
        ManyConfigurationErrors, match=r"expectations\[0\]\.column\n  found:    3\n"
    ):
        unpack_table({"table": "t", "keys": ["id"], "source": source}, "t.yml", [lambda _: [line]])


def test_the_root_of_the_command_line_moves_everything(tmp_path: Path) -> None:
    folder = conf(tmp_path)
    (folder / "targets" / "local.yml").write_text("root: /a\nlanding: /b\ncheckpoints: /c\n")
    target = load_target(folder, "local", "/r")
    assert (target.lake, target.landing, target.checkpoints) == (
        "/r/lake",
        "/r/landing",
        "/r/lake/_checkpoints",
    )


def test_settings_replace_what_the_target_says(tmp_path: Path) -> None:
    settings = ["schemas.gold=mine", "driver_memory=1g"]
    target = load_target(conf(tmp_path), "local", None, settings)
    assert (target.schemas.gold, target.schemas.bronze, target.driver_memory) == (
        "mine",
        "bronze",
        "1g",
    )


def test_an_unknown_target_gets_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="did you mean local"):
        load_target(conf(tmp_path), "locl")


def test_a_target_with_a_catalog_must_name_its_folders(tmp_path: Path) -> None:
    folder = conf(tmp_path)
    (folder / "targets" / "local.yml").write_text("kind: databricks\ncatalog: c\n")
    with pytest.raises(ManyConfigurationErrors) as caught:
        load_target(folder, "local")
    assert [error.key for error in caught.value.errors] == ["landing", "checkpoints"]


def test_a_root_takes_the_place_of_a_catalog_and_needs_no_databricks(tmp_path: Path) -> None:
    folder = conf(tmp_path)
    places = "landing: /Volumes/l\ncheckpoints: /Volumes/c\nsensitive: omit\n"
    (folder / "targets" / "dev.yml").write_text(f"kind: databricks\ncatalog: c\n{places}")
    target = load_target(folder, "dev", "/r", ["schemas.gold=mine"])
    assert (target.kind, target.catalog, target.lake, target.landing, target.sensitive) == (
        "local",
        None,
        "/r/lake",
        "/r/landing",
        "omit",
    )


@pytest.mark.parametrize(("word", "named"), [(False, "'no' or 'off'"), (True, "'yes' or 'on'")])
def test_a_word_that_yaml_reads_as_a_truth_value_needs_quotes(word: bool, named: str) -> None:
    document = {"table": "t", "source": {"format": "debezium", "path": word}, "keys": ["id"]}
    [(key, text)] = problems_of(document)
    assert key == "source.path"
    assert "put the word in quotes" in text and named in text
