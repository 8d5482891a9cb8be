import json
from pathlib import Path
from typing import Any

import pytest

from cdc_lakehouse.demo.questions import (
    FIRST,
    LATE,
    Dropped,
    copy_configuration,
    place_events,
    select_questions,
    select_shop_tables,
)
from cdc_lakehouse.demo.story import Story, story_lines
from lakehouse.config.loading import load_tables
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError
from silver.audit.explain import Explained

CONF = Path(__file__).parents[3] / "conf"
SHOP = load_tables(CONF)


def table(name: str, path: str = "shop") -> Table:
    source = {"format": "debezium", "path": path}
    return Table.model_validate({"table": name, "keys": ["id"], "source": source})


def test_the_captured_events_are_dropped_with_one_change_arriving_last(tmp_path: Path) -> None:
    dropped = place_events(Target(root=str(tmp_path)), SHOP)
    assert dropped.folder == tmp_path / "landing" / "shop"
    first, late = (dropped.folder / name for name in (FIRST, LATE))
    records = [json.loads(line) for line in first.read_text().splitlines()]
    assert (len(records) + 1, {r["topic"].rpartition(".")[2] for r in records}) == (
        dropped.records,
        {"customers", "order_items", "orders", "products"},
    )
    (change,) = [json.loads(line) for line in late.read_text().splitlines()]
    assert (change["value"]["op"], change["value"]["after"]["tier"]) == ("u", "gold")
    newest = max(r["value"]["ts_ms"] for r in records if r["value"])
    assert change["value"]["ts_ms"] < newest
    assert late.stat().st_mtime_ns >= first.stat().st_mtime_ns


def test_what_was_dropped_is_counted_by_kind(tmp_path: Path) -> None:
    dropped = place_events(Target(root=str(tmp_path)), SHOP)
    assert dropped.kinds == {
        "read by snapshots": 53,
        "inserts": 12,
        "updates": 33,
        "deletes": 11,
        "log-compaction tombstones": 11,
    }
    assert sum(dropped.kinds.values()) == dropped.records == 120


@pytest.mark.parametrize(
    ("topic", "kind", "records"),
    [("shop.shop.staging", "truncates", 2), ("shop.transaction", "others", 184)],
)
def test_records_that_change_no_row_are_counted_too(
    topic: str, kind: str, records: int, tmp_path: Path
) -> None:
    source = {"format": "debezium", "path": "shop", "topic": topic}
    read = Table.model_validate({"table": "t", "keys": ["id"], "source": source})
    dropped = place_events(Target(root=str(tmp_path)), [read])
    assert dropped.kinds[kind] == records
    assert sum(dropped.kinds.values()) == dropped.records


def test_a_table_without_a_topic_gets_the_records_of_all_topics(tmp_path: Path) -> None:
    dropped = place_events(Target(root=str(tmp_path)), [table("everything")])
    assert dropped.records == sum(dropped.kinds.values())
    assert {"truncates", "others"} <= dropped.kinds.keys()


def test_events_that_lie_there_are_left_alone(tmp_path: Path) -> None:
    def times() -> list[int]:
        folder = place_events(Target(root=str(tmp_path)), SHOP).folder
        return [file.stat().st_mtime_ns for file in sorted(folder.iterdir())]

    assert times() == times()


def test_a_target_that_is_not_local_is_refused(tmp_path: Path) -> None:
    far = Target(kind="connect", remote="sc://h", root=str(tmp_path))
    with pytest.raises(ConfigurationError, match="a local target"):
        place_events(far, SHOP)


def test_only_the_shops_tables_take_part() -> None:
    assert [t.table for t in select_shop_tables([table("orders"), table("x", "other")])] == [
        "orders"
    ]


def test_a_folder_without_the_shops_tables_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"source\.path: shop"):
        select_shop_tables([table("x", "other")])


def test_only_questions_that_can_be_answered_are_asked() -> None:
    assert select_questions([table("products")]) == {}
    assert list(select_questions([table("orders")])) == ["deleted"]
    assert list(select_questions(SHOP)) == ["history", "deleted"]


def test_without_a_configuration_the_projects_own_is_taken(tmp_path: Path) -> None:
    assert (copy_configuration(tmp_path) / "tables" / "orders.yml").is_file()


def story(**more: Any) -> Story:
    status = {"table": "customers", "rows": 6, "rejected": 0, "state": "ok"}
    why = "a newer change of the row was known by then, and this is a long reason for that"
    record = Explained(
        "a/0/1", None, "upsert", "2026-11-21T09:49:25.488666Z", "superseded", why, None
    )
    version = ["silver", '{"n": 1, "news": false}', "09:49:25.488", "09:49:29.429"]
    told = Story(
        Dropped(Path("/landing/shop"), 120, {"inserts": 9, "read by snapshots": 53}),
        [status | {"table": f"table_{n}"} for n in range(11)],
        [record] * 20,
        {"history": [version] * 3, "deleted": [["2", "new", "09:49:25.488", "09:49:43.551"]]},
        Path("/lake/_report/report.html"),
        " --root /r",
    )
    return told._replace(**more)


def test_the_story_is_at_most_forty_lines_of_eighty_columns() -> None:
    lines = story_lines(story())
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80


def test_the_story_tells_what_arrived_what_came_out_and_what_to_try() -> None:
    told = "\n".join(story_lines(story()))
    parts = ["ARRIVED", "CAME OUT", "EXPLAINED", "LATE", "DELETED", "REPORT", "TRY"]
    places = [told.index(part) for part in parts]
    assert places == sorted(places)
    assert told.count("\n  lakehouse ") == 3
    assert 'lakehouse sql "SELECT * FROM gold.orders" --root /r' in told
    assert "09:49:25.488  upsert" in told


def test_what_arrived_is_cut_between_kinds_only() -> None:
    kinds = {"read by snapshots": 53, "inserts": 12, "updates": 33, "deletes": 11}
    kinds |= {"log-compaction tombstones": 11}
    lines = story_lines(story(dropped=Dropped(Path("/landing/shop"), 120, kinds)))
    assert lines[2:4] == [
        "         53 read by snapshots, 12 inserts, 33 updates, 11 deletes,",
        "         11 log-compaction tombstones",
    ]


def test_long_options_go_to_a_line_of_their_own() -> None:
    lines = story_lines(story(options=f" --root /{'r' * 60}"))
    at = lines.index("TRY")
    assert lines[at + 1] == f"  AT='--root /{'r' * 60}'"
    assert lines[at + 2] == '  lakehouse sql "SELECT * FROM gold.orders" $AT'
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80


def test_what_to_try_names_the_program_as_the_shell_finds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", [".venv/bin/lakehouse", "demo"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "\n  .venv/bin/lakehouse status" in "\n".join(story_lines(story()))
    (tmp_path / "lakehouse").touch(0o755)
    assert "\n  lakehouse status" in "\n".join(story_lines(story()))


def test_parts_whose_tables_are_not_there_are_left_out() -> None:
    told = "\n".join(story_lines(story(explained=[], answers={})))
    assert "EXPLAINED" not in told and "LATE" not in told and "DELETED" not in told
