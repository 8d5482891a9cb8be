"""Nothing succeeds in silence: what has not come is warned of, and so is what looks encoded."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bronze.feed_state import Note, read_state
from bronze.feeds import list_feeds
from bronze.files.listing import list_here
from bronze.files.overwritten import count_unread, overwritten_files
from bronze.loss.missing_input import missing_folders, missing_input
from cdc_lakehouse.cli.silence import Warner, warnings_of, without_yaml
from gold.status.column_hints import column_hints, encoded_as, planned_rebuilds
from gold.status.figures import Figures
from gold.status.status_file import KnownStatus, write_known
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.delta_log import ColumnValues
from silver.contract import MEMBER_TYPES
from tests.unit.lakehouse.test_delta_log import commit

TOPIC = "s.p.orders"


def table(columns: dict[str, str] | None = None, **source: Any) -> Table:
    given = {"format": "debezium", "path": "shop"} | source
    return Table.model_validate(
        {"table": "orders", "source": given, "keys": ["id"], "columns": columns or {}}
    )


def stored(folder: Path, **columns: list[Any]) -> None:
    """A Delta table of one file, as its log and its footers tell."""
    folder.mkdir(parents=True)
    typed = {n: pa.array(v, pa.string()) if not any(v) else pa.array(v) for n, v in columns.items()}
    data = pa.table(typed)
    pq.write_table(data, folder / "a.parquet")
    kinds = {"int64": "long", "string": "string"}
    fields = [
        {"name": f.name, "type": kinds[str(f.type)], "nullable": True, "metadata": {}}
        for f in data.schema
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    stats = json.dumps({"numRecords": data.num_rows})
    add = {"add": {"path": "a.parquet", "stats": stats}}
    commit(folder, 0, {"metaData": {"schemaString": schema}}, add)


def bronze(root: Path, name: str, topics: list[str]) -> None:
    stored(root / "lake" / "bronze" / name, _topic=topics)


def changes(root: Path, **columns: list[Any]) -> None:
    stored(root / "lake" / "silver" / "orders_changes", **columns)


def test_a_landing_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    target, folder = Target(root=str(tmp_path)), tmp_path / "landing" / "shop"
    (warning,) = missing_folders(target, [table()])["orders"]
    assert missing_input(target, [table()]) == {}
    assert warning.startswith(f"the landing folder {folder} does not exist; do: ")


@pytest.mark.parametrize("written", ["shpo", "landing/shop"])
def test_the_folder_that_was_probably_meant_is_named(tmp_path: Path, written: str) -> None:
    (tmp_path / "landing" / "shop").mkdir(parents=True)
    (tmp_path / "landing" / "shop" / "a.jsonl").touch()
    target = Target(root=str(tmp_path))
    (before,) = missing_folders(target, [table(path=written)])["orders"]
    (tmp_path / "landing" / written).mkdir(parents=True)  # as a run does
    (after,) = missing_input(target, [table(path=written)])["orders"]
    assert "does not exist" in before and "is empty" in after
    assert all(text.endswith("do: correct source.path, is it shop?") for text in (before, after))


def test_a_folder_that_another_table_reads_is_not_the_one_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "landing" / "shop").mkdir(parents=True)
    (tmp_path / "landing" / "shop" / "a.jsonl").touch()
    target, other = Target(root=str(tmp_path)), table().model_copy(update=NAMED)
    said = missing_folders(target, [table(path="shpo"), other])
    assert [*said] == ["orders"] and "do: drop files there" in said["orders"][0]
    by_topic = [table(path="shpo", topic="a"), table(topic=TOPIC).model_copy(update=NAMED)]
    assert "is it shop?" in missing_folders(target, by_topic)["orders"][0]


def test_an_empty_landing_folder_is_named_until_a_whole_file_lies_there(tmp_path: Path) -> None:
    target, folder = Target(root=str(tmp_path)), tmp_path / "landing" / "shop" / "day"
    folder.mkdir(parents=True)
    assert "is empty; do: drop files" in missing_input(target, [table()])["orders"][0]
    (folder / "b.tmp").touch()
    assert "no complete file: b.tmp is left alone" in missing_input(target, [table()])["orders"][0]
    (folder / ".a.jsonl").touch()
    (folder / "a.jsonl").touch()
    assert missing_input(target, [table()]) == {}


def test_a_folder_that_was_emptied_after_it_was_read_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "landing" / "shop").mkdir(parents=True)
    bronze(tmp_path, "orders", ["x"])
    assert missing_input(Target(root=str(tmp_path)), [table()]) == {}


NAMED = {"table": "people"}
EXTRACT = {"format": "snapshot", "mode": "full"}


@pytest.mark.parametrize(
    ("file_format", "content", "empty"),
    [
        ("csv", b"id,name\r\n\r\n", True),
        ("csv", b"id,name\n1,a\n", False),
        ("csv", b"\xef\xbb\xbf", True),
        ("csv", "id,name\n".encode("utf-16"), True),
        ("json", b"", True),
        ("json", b"[\n]\n", True),
        ("json", b'{"id": 1}', False),
        ("json", gzip.compress(b" ", mtime=0), True),
        ("json", b"\x1f\x8b\x08" + bytes(7) + b"no deflate", False),
        ("parquet", b"PAR1 and no more", False),
    ],
)
def test_a_snapshot_without_rows_is_named(
    tmp_path: Path, file_format: str, content: bytes, empty: bool
) -> None:
    target, of = Target(root=str(tmp_path)), table(file_format=file_format, **EXTRACT)
    bronze(tmp_path, "orders", ["x"])
    for day, text in (("2026-01-01", b"x,y\n1,2\n"), ("2026-01-02", content)):
        file = tmp_path / "landing" / "shop" / day / "a"
        file.parent.mkdir(parents=True)
        file.write_bytes(text)

    found = missing_input(target, [of])

    if empty:
        assert found["orders"][0].startswith("the snapshot of 2026-01-02 holds no row, so it ")
    assert bool(found) == empty


@pytest.mark.parametrize("is_first", [True, False])
def test_a_parquet_snapshot_without_rows_is_named(tmp_path: Path, is_first: bool) -> None:
    if not is_first:
        bronze(tmp_path, "orders", ["x"])
    folder = tmp_path / "landing" / "shop" / "2026-01-02"
    folder.mkdir(parents=True)
    target, of = Target(root=str(tmp_path)), table(file_format="parquet", **EXTRACT)
    pq.write_table(pa.table({"id": pa.array([], pa.int32())}), folder / "a.parquet")

    assert "2026-01-02 holds no row" in missing_input(target, [of])["orders"][0]
    pq.write_table(pa.table({"id": [1]}), folder / "b.parquet")
    assert missing_input(target, [of]) == {}


def test_a_topic_without_a_record_is_named_with_the_one_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "landing" / "shop").mkdir(parents=True)
    bronze(tmp_path, "feed_shop", [TOPIC, "s.p.items"])
    target = Target(root=str(tmp_path))
    assert missing_input(target, [table(topic=TOPIC)]) == {}
    (warning,) = missing_input(target, [table(topic="s.p.order")])["orders"]
    assert warning == (
        f"topic s.p.order has brought no record: did you mean {TOPIC}?; do: correct source.topic"
    )
    (warning,) = missing_input(target, [table(topic="elsewhere")])["orders"]
    assert "the feed has s.p.items, s.p.orders" in warning


def test_a_catalog_is_not_looked_at() -> None:
    target = Target(catalog="c", landing="/Volumes/l", checkpoints="/Volumes/c")
    assert (missing_input(target, [table()]), column_hints(target, [table()])) == ({}, {})


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("op = 'd'", []),
        ("OP = 'd' AND NOT kept", []),
        (
            "opp = 'd'",
            ["apply_as_deletes names opp, of which no record has had a value; did you mean op?"],
        ),
        (
            "gone",
            ["apply_as_deletes names gone, of which no record has had a value; do: check its name"],
        ),
        ("_gone", []),
    ],
)
def test_a_name_in_a_condition_that_no_column_has_is_told(
    tmp_path: Path, condition: str, said: list[str]
) -> None:
    changes(tmp_path, id=[1], op=["d"], kept=["x"])
    config = {"table": "orders", "keys": ["id"], "sequence_by": "id", "columns": {"op": "string"}}
    rows = {"source": {"format": "rows", "path": "shop"}, "apply_as_deletes": condition}
    told = warnings_of(Target(root=str(tmp_path)), [Table.model_validate(config | rows)])
    assert [text for text in told["orders"] if "apply_as_deletes" in text] == said


def test_a_name_in_where_that_no_column_has_is_told(tmp_path: Path) -> None:
    changes(tmp_path, id=[1], op=["d"])
    source = {"format": "rows", "path": "shop", "where": "opp <> 'B'"}
    config = {"table": "orders", "keys": ["id"], "sequence_by": "id", "source": source}
    told = warnings_of(Target(root=str(tmp_path)), [Table.model_validate(config)])["orders"]
    said = "source.where names opp, of which no record has had a value; did you mean op?"
    assert [text for text in told if "source.where" in text] == [said]


def told_of(root: Path, source: dict[str, Any], **members: str) -> list[str]:
    """What a run of all records says of conditions; `members` are what records had."""
    stored(root / "lake" / "silver" / "orders_changes", id=[1])
    config = {"table": "orders", "keys": ["id"], "sequence_by": "id", "source": source}
    built = {MEMBER_TYPES: json.dumps(members)} if members else {}
    kept = {"orders": Figures(counts={"records": 2, "filtered": 2}, built=built)}
    target = Target(root=str(root))
    write_known(target, KnownStatus(tables=kept))
    told = warnings_of(target, [Table.model_validate(config)])["orders"]
    return [text for text in told if ".where names" in text]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("kind <> 'x'", []),
        ("metadata.`record-type` = 'data'", []),
        (
            "kimd <> 'x'",
            ["source.where names kimd, of which no record has had a value; did you mean kind?"],
        ),
        (
            "`metadata`.`kind` = 'x' AND gone",
            [
                "source.where names metadata.kind, of which no record has had a value; did you mean"
                " metadata.record-type?",
                "source.where names gone, of which no record has had a value; do: check its name",
            ],
        ),
    ],
)
def test_a_name_in_where_that_no_record_around_a_row_has_is_told(
    tmp_path: Path, where: str, said: list[str]
) -> None:
    had = {"__record.kind": "string", "__record.metadata.record-type": "string"}
    parts = {"row": "data", "operation": "type"}
    source = {"format": "rows", "path": "shop", "envelope": parts}
    assert told_of(tmp_path / "a", source | {"where": where}, **had) == said
    told = told_of(tmp_path / "b", source | {"envelope": parts | {"where": where}}, **had)
    assert told == [text.replace("source.where", "envelope.where") for text in said]


def test_a_preset_names_what_its_records_may_lack(tmp_path: Path) -> None:
    assert told_of(tmp_path, {"format": "dms", "path": "shop"}) == []


def test_names_with_an_underscore_are_told_once_records_were_seen(tmp_path: Path) -> None:
    source = {"format": "rows", "path": "shop", "where": "_op <> 'B'"}
    assert told_of(tmp_path / "a", source, _op="string") == []
    said = ["source.where names _op, of which no record has had a value; did you mean _ope?"]
    assert told_of(tmp_path / "b", source, _ope="string") == said


def test_a_declared_column_that_never_came_is_named(tmp_path: Path) -> None:
    changes(tmp_path, id=[1, 2], customer_id=[7, None], custmer_id=[None, None], note=[None, None])
    declared = {"id": "bigint", "custmer_id": "string", "note": "string"}
    found = column_hints(Target(root=str(tmp_path)), [table(declared)])["orders"]
    assert found == [
        "column custmer_id is declared, but no record has had a value of type string for it; "
        "did you mean customer_id?",
        "column note is declared, but no record has had a value of type string for it; "
        "do: check its name and type, or remove it",
    ]


def test_a_column_whose_type_was_changed_is_named_before_a_record_is_refused(
    tmp_path: Path,
) -> None:
    changes(tmp_path, id=[1, 2], total=["1.5", None])
    target = Target(root=str(tmp_path))
    same, other = (table({"id": "bigint", "total": kind}) for kind in ("string", "int"))
    assert planned_rebuilds(target, [same]) == {"orders": []}
    (warning,) = planned_rebuilds(target, [other])["orders"]
    assert warning == (
        "column total was string, is int; do: put the YAML back, or `lakehouse rebuild orders`"
    )


def test_a_table_whose_yaml_is_gone_is_named(tmp_path: Path) -> None:
    changes(tmp_path, id=[1])
    (tmp_path / "lake" / "silver" / "_table_changes" / "_delta_log").mkdir(parents=True)
    target = Target(root=str(tmp_path))
    renamed = table().model_copy(update={"table": "orders2"})
    assert without_yaml(target, [table()]) == []
    (sentence,) = without_yaml(target, [renamed])
    assert sentence.startswith("orders: no YAML describes this table")
    assert "; do: put its YAML back" in sentence


def test_a_table_of_deletes_alone_lacks_no_column(tmp_path: Path) -> None:
    changes(tmp_path, id=[1, 2], note=[None, None])
    declared = {"id": "bigint", "note": "string"}
    assert column_hints(Target(root=str(tmp_path)), [table(declared)]) == {}


@pytest.mark.parametrize(
    ("options", "view"),
    [
        ({"stored_as_scd_type": 2}, "orders_history"),
        ({"source": {"format": "snapshot", "path": "shop", "mode": "full"}}, "orders_changes"),
        ({"on_delete": "flag"}, "orders"),
    ],
)
def test_a_column_that_gold_calls_otherwise_is_named(
    tmp_path: Path, options: dict[str, Any], view: str
) -> None:
    own = {"orders_history": "Valid_To", "orders_changes": "operation", "orders": "is_deleted"}
    changes(tmp_path, id=[1], **{own[view]: ["x"]})
    given = table().model_dump(by_alias=True, exclude_unset=True) | options
    (hint,) = column_hints(Target(root=str(tmp_path)), [Table.model_validate(given)])["orders"]
    name = own[view]
    assert hint.startswith(f"column {name} is shown as {name}_source in gold.{view}, ")


def test_an_undeclared_column_that_looks_encoded_is_named_and_a_declared_one_is_not(
    tmp_path: Path,
) -> None:
    changes(tmp_path, id=[1], placed_at=[1_704_164_645_000_000], _x=[1_704_164_645_000])
    target = Target(root=str(tmp_path))
    (hint,) = column_hints(target, [table()])["orders"]
    assert hint == (
        "column placed_at looks like microseconds since 1970; do: declare it, "
        "`placed_at: timestamp`, or its own type if it is none"
    )
    declared = [table({"placed_at": "timestamp"})]
    assert column_hints(target, declared) == {}
    assert planned_rebuilds(target, declared)["orders"][0].endswith("`lakehouse rebuild orders`")


@pytest.mark.parametrize(
    ("name", "kind", "column", "looks"),
    [
        ("at", "long", ColumnValues(2, (1_700_000_000_000, 1_800_000_000_000)), "milliseconds"),
        (
            "at",
            "long",
            ColumnValues(2, (1_700_000_000 * 10**9, 1_800_000_000 * 10**9)),
            "nanoseconds",
        ),
        ("joined_on", "integer", ColumnValues(2, (19_000, 20_000)), "days since 1970"),
        ("total", "string", ColumnValues(2, None, ("AYY=", "fQ==")), "base64"),
        ("qty", "integer", ColumnValues(2, (19_000, 20_000)), None),
        ("at", "long", ColumnValues(2, (5, 1_700_000_000_000)), None),
        ("tier", "string", ColumnValues(2, None, ("gold", "zinc")), None),
        ("note", "string", ColumnValues(0), None),
    ],
)
def test_values_that_look_encoded(
    name: str, kind: str, column: ColumnValues, looks: str | None
) -> None:
    found = encoded_as(name, kind, column)
    assert (found is None) if looks is None else (found is not None and looks in found[0])


def test_a_file_that_was_overwritten_after_it_was_read_is_named_with_what_to_do(
    tmp_path: Path,
) -> None:
    target, one = Target(root=str(tmp_path)), table()
    shop = tmp_path / "landing" / "shop"
    shop.mkdir(parents=True)
    files = [shop / f"{name} 1.json" for name in "abcdefg"]
    for file in files:
        file.write_text("1")
    (feed,) = list_feeds([one])
    listed = list_here(target, str(shop), lambda path: False)
    read_state(target, feed).add_note(
        Note(1, files={f.path: (f.length, f.changed) for f in listed})
    )
    assert overwritten_files(target, [one]) == {} and count_unread(target, one) == 0
    files[0].write_text("another")
    (text,) = warnings_of(target, [one])["orders"]
    assert f"not read again: shop/a 1.json; do: `lakehouse run --again '{files[0]}'`" in text
    os.utime(files[0], (1, 1))
    for file in files[1:5]:
        file.unlink()
        file.write_text("other")
    assert "shop/c 1.json and 2 more; do:" in overwritten_files(target, [one])["orders"][0]
    text = overwritten_files(target, [one])["orders"][0]
    again = " ".join(f"--again '{file}'" for file in files[:3])
    assert text.endswith(f"do: `lakehouse run {again}`")
    source = {"format": "snapshot", "path": "shop", "mode": "full"}
    config = {"table": "orders", "keys": ["id"], "columns": {"id": "int"}, "source": source}
    (text,) = overwritten_files(target, [Table.model_validate(config)])["orders"]
    removing = "put the whole snapshot into a later day's folder (a file read again removes no row)"
    assert text.endswith(f"do: {removing}, then `lakehouse run {again}`")
    files[0].rename(shop / f"again-{files[0].name}")
    assert count_unread(target, one) == 1
    assert "again: shop/b 1.json" in overwritten_files(target, [one])["orders"][0]


def test_each_warning_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warner = Warner(Target(root=str(tmp_path)), [table()])
    warner.warn_of_news()
    warner.warn_of_news()
    told = " ".join(capsys.readouterr().err.split())
    assert told.startswith("warning: orders: the landing folder ") and told.count("warning:") == 1
