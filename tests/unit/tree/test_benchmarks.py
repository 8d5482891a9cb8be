"""The benchmarks: generated changes, the truth about them, and what counts as wrong."""

import itertools
import json
import re
from datetime import date, datetime, timedelta, timezone
from html import unescape

import polars as pl
import pytest

from benchmarks import history_recipe, page
from benchmarks.events import Keys, Workload, batches, columns, key_columns, lines, snapshot
from benchmarks.fixed import SilverQueries
from benchmarks.history import begun
from benchmarks.picture import WIDTH, compares, drawn, is_ours, svg
from benchmarks.queries import DEFINITIONS, DELTA, OWN, Execution, by_kind
from benchmarks.result import Line, Result, kept, table
from benchmarks.truth import true_versions, truth, wrong, wrong_versions

SMALL = Workload(rows=2000, changes=1600)
Row = dict[str, object]


def stream(work: Workload, count: int = 4) -> list[pl.DataFrame]:
    return [snapshot(work), *itertools.islice(batches(work), count)]


def replayed(work: Workload, parts: list[pl.DataFrame]) -> dict[tuple[object, ...], Row]:
    """The rows a single reader ends with who sorts all events by LSN and applies them in turn."""
    events = [json.loads(line) for part in parts for line in lines(work, part)]
    rows: dict[tuple[object, ...], Row] = {}
    for event in sorted(events, key=lambda event: event["source"]["lsn"]):
        image = event["before"] if event["op"] == "d" else event["after"]
        key = tuple(image[column.name] for column in key_columns(work))
        rows.pop(key, None)
        if event["op"] != "d":
            rows[key] = event["after"]
    return rows


def test_the_same_workload_is_the_same_events() -> None:
    once, again = (pl.concat(stream(SMALL)[1:]) for _ in range(2))
    assert once.equals(again)


def test_a_batch_has_its_size_repeats_and_every_kind_of_change() -> None:
    for batch in stream(SMALL)[1:]:
        assert batch.height == SMALL.changes
        assert set(batch["op"]) == {"c", "u", "d"}
        assert batch.select(pl.struct("row", "lsn").is_duplicated().any()).item()
        assert not batch["lsn"].is_sorted()


def test_a_workload_in_order_has_no_late_and_no_repeated_change() -> None:
    orderly = pl.concat(stream(SMALL._replace(in_order=True))[1:])
    assert orderly["lsn"].is_sorted()
    assert orderly["lsn"].is_unique().all()
    assert set(orderly["op"]) == {"c", "u", "d"}


def test_a_batch_to_which_many_come_late_repeats_none() -> None:
    few = Workload(rows=1000, changes=50)
    sizes = [batch.height for batch in itertools.islice(batches(few), 20)]
    assert min(sizes) == few.changes < max(sizes)


def test_some_updates_arrive_after_the_delete_that_overtook_them() -> None:
    _, first, second, *_ = stream(SMALL)
    gone = first.filter(pl.col("op") == "d").select("row", deleted="lsn")
    late = second.filter(pl.col("op") == "u").join(gone, on="row")
    assert late.filter(pl.col("lsn") < pl.col("deleted")).height > 0


def test_hot_keys_get_their_share_of_the_updates() -> None:
    _, batch = stream(SMALL._replace(hot=0.8), 1)
    updates = batch.filter(pl.col("op") == "u")
    assert updates.filter(pl.col("row") < SMALL.rows // 50).height > updates.height * 0.7


@pytest.mark.parametrize("keys", ["number", "text", "composite"])
def test_the_truth_is_what_a_single_reader_computes(keys: Keys) -> None:
    work = SMALL._replace(keys=keys, width=12)
    parts = stream(work)
    found = truth(work, parts)
    expected = list(replayed(work, parts).values())
    assert wrong(work, found, pl.DataFrame(expected, infer_schema_length=None)) == 0
    assert found.width == len(columns(work)) == 12


def test_missing_extra_different_and_repeated_rows_are_wrong() -> None:
    right = truth(SMALL, stream(SMALL))
    different = right[:2].with_columns(quantity=pl.lit(-1, pl.Int32))
    unknown = right[:1].with_columns(id=pl.lit(-1, pl.Int64))
    found = pl.concat([different, right[3:], right[10:11], unknown])
    assert wrong(SMALL, right, right) == 0
    assert wrong(SMALL, right, found) == 2 + 1 + 1 + 1


def result_of(*shown: Line, made_on: str = "2026-11-27, Linux, cdc-lakehouse 0.3.0") -> Result:
    return Result("apply", "How long?", "rows", "python -m benchmarks apply", made_on, [*shown])


OURS, RECIPE = Line("cdc-lakehouse", [1.0, 1.5, 9.5], 0), Line("Delta <recipe>", [3.0, 3.0, 3.0], 7)


def bars(picture: str) -> dict[str, float]:
    """The lengths of the bars by their class."""
    found = re.findall(r'<rect class="(ours|others)".*? width="([\d.]+)"', picture)
    return {kind: float(width) for kind, width in found}


def test_a_result_shows_its_median_and_its_wrong_rows() -> None:
    shown = [Line("one", [1.0, 3.0, 2.0], 0), Line("<two>", [4.0], 1200)]
    assert "| <two> | 4.00 | 4.00 | 4.00 to 4.00 | 2.00 | **1,200** |" in table(shown)


def test_a_bar_is_the_mean_and_the_range_stands_beside_it() -> None:
    """By the median this project would be the faster one."""
    picture = svg(result_of(OURS, RECIPE))
    lengths = bars(picture)
    assert lengths["ours"] / lengths["others"] == pytest.approx(4 / 3, rel=0.01)
    assert "4.00 s" in picture and "1.00 to 9.50" in picture
    assert "Delta &lt;recipe&gt;" in picture and "7 wrong rows" in picture
    assert "cdc-lakehouse 0.3.0" in picture and "median" not in picture


def test_what_is_no_competitor_has_no_bar() -> None:
    left = Line("cdc-lakehouse: merging what waits at the end", [2.0])
    assert svg(result_of(OURS, left, RECIPE)).count("<rect class") == 1 + 2


def test_a_picture_has_one_colour_for_ours_and_is_left_out_where_it_says_nothing() -> None:
    gold, plain = Line("count: gold", [1.0]), Line("count: plain", [1.0])
    others = [Line("all: gold", [2.0]), Line("all: plain, again", [2.0])]
    assert [is_ours(line, result_of(gold, plain)) for line in (gold, plain)] == [True, False]
    assert [line.name for line in drawn(result_of(gold, plain, *others))] == [
        "count: gold", "count: plain", "all: gold"
    ]  # fmt: skip
    grouped = svg(result_of(gold, plain, *others))
    assert ">count</text>" in grouped and ">gold</text>" in grouped
    loads = [Line("first load", [9.0]), Line("a batch", [1.0])]
    assert not compares(result_of(*loads)) and compares(result_of(OURS, RECIPE))
    assert "](apply.svg)" not in page.section(result_of(*loads))


def test_a_picture_follows_the_dark_mode() -> None:
    assert "@media (prefers-color-scheme: dark)" in svg(result_of(OURS, RECIPE))
    assert re.findall(r'(?:fill|stroke)="#', svg(result_of(OURS, RECIPE))) == []


@pytest.mark.parametrize("result", [r for r in kept() if compares(r)], ids=lambda r: r.name)
def test_labels_of_a_kept_result_fit(result: Result) -> None:
    """A letter is taken as 8 of 13 pixels wide, which is wider than in most fonts."""
    picture = svg(result)
    begin = min(float(x) for x in re.findall(r'<rect class="o\w+" x="([\d.]+)"', picture))
    names = re.findall(r'<text class="ink" x="([\d.]+)" y="[\d.]+" font-size="13">(.*?)<', picture)
    assert [name for x, name in names if float(x) + 8 * len(unescape(name)) > begin] == []
    for x, texts in re.findall(r'<text x="([\d.]+)"[^>]*>(<tspan.*?)</text>', picture):
        figures = re.findall(r">([^<]+)</tspan>", texts)
        assert float(x) + 8 * len("".join(figures)) + 12 * (len(figures) - 1) <= WIDTH


def test_a_result_is_written_into_its_place_on_a_page() -> None:
    result = result_of(OURS, RECIPE, made_on="0.2")
    text = "before\n<!-- result apply -->\nold\n<!-- end -->\n<!-- result x -->\n<!-- end -->\n"
    found = page.filled(text, {"apply": result})
    assert found.startswith("before\n<!-- result apply -->\n\nHow long?: rows.\n\n| |")
    assert "old" not in found and "](apply.svg)" in found
    assert found.endswith("<!-- end -->\n<!-- result x -->\n<!-- end -->\n")
    assert page.filled(found, {"apply": result}) == found


def test_the_index_names_the_version_of_each_page_and_marks_what_is_older() -> None:
    pages = {"a.md": "cdc-lakehouse\n0.3.0,", "b.md": "cdc-lakehouse 0.1.0, cdc-lakehouse 0.3.0"}
    rows = "\n".join(f"| [Q?]({name}.md) | answer | old |" for name in "abc")
    assert page.with_versions(f"| question | x | y |\n{rows}\n", pages, "0.3.0").splitlines() == [
        "| question | x | y |",
        "| [Q?](a.md) | answer | 0.3.0 |",
        "| [Q?](b.md) | answer | 0.3.0; **older**: 0.1.0 |",
        "| [Q?](c.md) | answer | not measured |",
    ]


def test_every_kept_result_stands_on_a_page() -> None:
    pages = {file.name: file.read_text() for file in page.FOLDER.glob("*.md")}
    for result in kept():
        assert page.section(result) in "".join(pages.values())
        if compares(result):
            assert (page.FOLDER / f"{result.name}.svg").read_text() == svg(result)
    pictures = {file.stem for file in page.FOLDER.glob("*.svg")}
    assert pictures == {result.name for result in kept() if compares(result)}
    index = pages["index.md"]
    assert index == page.with_versions(index, pages, page.current_version())


def test_no_kept_figure_is_older_than_sixty_days_before_the_release() -> None:
    changelog = (page.ROOT / "CHANGELOG.md").read_text()
    released = date.fromisoformat(re.findall(r"^## \[.*?\] - (\S+)$", changelog, re.MULTILINE)[0])
    for result in kept():
        assert released - date.fromisoformat(result.made_on[:10]) <= timedelta(days=60)
        assert re.match(r"python -m benchmarks[ .]", result.command)
        assert page.measured_with(result.made_on, "") != "not measured"


Version = tuple[object, ...]


def read_history(work: Workload, parts: list[pl.DataFrame]) -> list[Row]:
    """The versions of a single reader who sorts all events by LSN and opens and closes versions."""
    events = [json.loads(line) for part in parts for line in lines(work, part)]
    made: list[Row] = []
    current: dict[Version, Row] = {}
    applied: set[tuple[Version, int]] = set()
    for event in sorted(events, key=lambda event: event["source"]["lsn"]):
        image = event["before"] if event["op"] == "d" else event["after"]
        key = tuple(image[column.name] for column in key_columns(work))
        if (key, event["source"]["lsn"]) in applied:
            continue
        applied.add((key, event["source"]["lsn"]))
        at = datetime(1970, 1, 1, tzinfo=timezone.utc)
        at += timedelta(microseconds=event["source"]["ts_us"])
        if key in current:
            current.pop(key)["valid_to"] = at
        if event["op"] != "d":
            current[key] = event["after"] | {"valid_from": at, "valid_to": None}
            made.append(current[key])
    return made


@pytest.mark.parametrize("keys", ["number", "text", "composite"])
def test_the_true_versions_are_what_a_single_reader_computes(keys: Keys) -> None:
    work = SMALL._replace(keys=keys)
    parts = stream(work)
    right = true_versions(work, parts)
    expected = pl.DataFrame(read_history(work, parts), infer_schema_length=None)
    assert right.height == expected.height > SMALL.rows
    assert wrong_versions(work, right, expected) == 0


def test_the_open_versions_of_the_true_history_are_the_true_rows() -> None:
    parts = stream(SMALL)
    now = true_versions(SMALL, parts).filter(pl.col("valid_to").is_null())
    assert wrong(SMALL, truth(SMALL, parts), now) == 0


def test_versions_that_are_lost_too_many_or_end_at_another_time_are_wrong() -> None:
    right = true_versions(SMALL, stream(SMALL))
    closed = right.filter(pl.col("valid_to").is_not_null())
    rest = right.join(closed[:3], on=["id", "valid_from"], how="anti")
    never_closed = closed[:2].with_columns(valid_to=pl.lit(None, right.schema["valid_to"]))
    longer = right[:1].with_columns(pl.col("valid_from") + pl.duration(microseconds=1))
    assert wrong_versions(SMALL, right, right) == 0
    assert wrong_versions(SMALL, right, pl.concat([rest, never_closed])) == 2 + 1
    assert wrong_versions(SMALL, right, pl.concat([right, longer])) == 1


def test_a_history_begins_with_the_versions_asked_for_half_of_them_of_a_snapshot() -> None:
    work = Workload(rows=4000, changes=300)
    keys, past, later = begun(work)
    assert past[0].height == keys.rows == 2000
    begins = true_versions(keys, past).height
    assert 4000 <= begins < 4000 + work.changes
    assert next(later).height == work.changes


def test_the_staged_rows_of_the_recipe_name_every_column_of_the_key() -> None:
    staged = history_recipe.staged_sql("target", ["region", "number"])
    assert "NULL AS merge_region, NULL AS merge_number" in staged
    assert "c.region AS merge_region, c.number AS merge_number" in staged
    assert "ON c.region = t.region AND c.number = t.number" in staged
    merge = history_recipe.merge_sql("target", ["region", "number"], ["region", "number", "note"])
    assert "ON t.region = s.merge_region AND t.number = s.merge_number AND t.is_current" in merge
    assert "(region, number, note, lsn, valid_from, valid_to, is_current)" in merge


def test_executions_inside_another_are_deltas_and_statements_about_tables_are_apart() -> None:
    write = "== Physical Plan ==\nExecute SaveIntoDataSourceCommand (1)\n   +- Project (2)"
    read = "== Physical Plan ==\n* Project (3)\n+- * Scan parquet  (1)"
    counted = by_kind(
        [
            Execution(1, 1, "== Physical Plan ==\nCreateTable (1)\n"),
            Execution(2, 1, read),
            Execution(
                3, 3, "== Physical Plan ==\nCommandResult (1)\n   +- ShowTableProperties (2)"
            ),
            Execution(4, 4, write),
            Execution(5, 4, read),
            Execution(6, 4, "== Physical Plan ==\nCreateTable (1)\n"),
            Execution(7, 7, read),
        ]
    )
    assert counted == {OWN: 2, DEFINITIONS: 2, DELTA: 3}


def test_silvers_queries_are_shared_among_the_runs_of_all_tables() -> None:
    counts = iter([{OWN: 50}, {OWN: 8, DELTA: 20}, {OWN: 0}, {OWN: 60}, {OWN: 4, DELTA: 4}])
    silver = SilverQueries(lambda: next(counts), tables=4)
    for layer in ("bronze", "silver", "gold"):
        silver.note(layer)
    assert silver.per_table_run() == {OWN: 2.0, DELTA: 5.0}
    silver.note("bronze")
    silver.note("silver")
    assert silver.per_table_run() == {OWN: 1.0, DELTA: 1.0}


def test_the_page_lists_the_queries_of_the_lines_that_count_them() -> None:
    lines = [Line("rounds", [1.0], queries={OWN: 2.25, DELTA: 4.0}), Line("commands", [2.0])]
    assert "- rounds: 2.2 of our own, 4.0 of Delta's own" in page.queries(lines)
    assert "commands" not in page.queries(lines)
    assert page.queries(lines[1:]) == ""


def test_recent_changes_fall_on_the_newest_rows() -> None:
    work = Workload(rows=200_000, changes=2_000, recent=0.9, keys="time")
    first, second = itertools.islice(batches(work), 2)
    for op in ("u", "d"):
        rows = pl.concat([first, second]).filter(pl.col("op") == op)["row"]
        assert 0.88 < (rows >= 189_000).mean() < 0.96
    assert work.title.startswith("200,000 rows of 7 columns, time keys, 90% of changes on the")


def test_time_ordered_keys_grow_with_the_rows() -> None:
    [key] = key_columns(Workload(keys="time"))
    made = pl.DataFrame({"row": [0, 1, 9, 10, 99_999_999]}).select(key.value.alias("id"))["id"]
    assert made.is_sorted() and made.n_unique() == 5
    assert all(len(part) == 36 for part in made)
