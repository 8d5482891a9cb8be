"""Gold against a source database: SQLite, whose digests are computed in this process."""

from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from gold.source_check.database import connect_to_source, find_table
from gold.source_check.digests import bucket_parts, compare_buckets, digest_gold
from gold.source_check.plan import plan_comparison
from gold.source_check.verdict import SourceDatabase, Verdict, compare_with_source, read_published
from gold.views import selects
from lakehouse.config.table import Table
from lakehouse.errors import SourceUnreachable, TableFailed
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import publish_views

pytestmark = pytest.mark.slow

SCHEMA = (
    "id bigint, price decimal(12,2), weight double, light float, active boolean, name string,"
    " code string, photo binary, born date, seen timestamp_ntz, odd string"
)
DDL = (
    "CREATE TABLE things (id BIGINT, price NUMERIC(12,2), weight DOUBLE, light REAL,"
    " active BOOLEAN, name VARCHAR(20), code CHAR(6), photo BLOB, born DATE, seen DATETIME,"
    " odd TEXT)"
)
SEEN = datetime(2024, 5, 1, 12, 0, 0, 123456, tzinfo=timezone.utc).replace(tzinfo=None)
ROWS: list[tuple[Any, ...]] = [
    (1, Decimal("10.50"), 0.1, 0.5, True, "Ann", "ab", b"\x00\xff", date(2024, 2, 29), SEEN, None),
    (2, Decimal("100.00"), 1e20, -2.0, False, "", "", b"", date(1999, 12, 31), SEEN, "é😀:'n"),
    (3, None, None, None, None, None, None, None, None, None, None),
    (4, Decimal("-0.01"), -1.5e-9, 3.25, True, "Z", "abcdef", b"x", date(2000, 1, 1), SEEN, "\\"),
]


def table(keys: Sequence[str] = ("id",)) -> Table:
    source = {"format": "debezium", "path": "things"}
    return Table.model_validate({"table": "things", "keys": list(keys), "source": source})


def show(lake: Lake, rows: list[tuple[Any, ...]], config: Table) -> None:
    """Puts rows into gold as they are."""
    source = lake.name("silver", "things")
    frame = lake.spark.createDataFrame(
        [(*row, False) for row in rows], f"{SCHEMA}, _deleted boolean"
    )
    frame.write.format("delta").save(f"{lake.target.lake}/silver/things")
    columns = [c for c in frame.columns if c != "_deleted"]
    keyed = config.model_copy(update={"keys": ["id"]})
    publish_views(lake, "gold", [selects.build_current(keyed, source, columns)])


def hold(folder: Path, rows: list[tuple[Any, ...]]) -> str:
    """A SQLite database that holds the rows; returns its URL."""
    url = f"sqlite:///{folder}/source.db"
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(DDL))
        marks = ", ".join(f":c{at}" for at in range(len(rows[0])))
        for row in rows:
            plain = [float(v) if isinstance(v, Decimal) else v for v in row]
            values = {f"c{at}": _stored(v) for at, v in enumerate(plain)}
            connection.execute(text(f"INSERT INTO things VALUES ({marks})"), values)
    engine.dispose()
    return url


def _stored(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return value.isoformat() if isinstance(value, date) else value


def judge(
    lake: Lake, gold: list[tuple[Any, ...]], source: list[tuple[Any, ...]],
    keys: Sequence[str] = ("id",),
) -> Verdict:  # fmt: skip
    config = table(keys)
    show(lake, gold, config)
    return compare_with_source(
        lake, config, SourceDatabase(hold(Path(str(lake.target.root)), source)), pause=0
    )


def test_equal_rows_have_equal_digests_on_both_sides(lake: Lake) -> None:
    show(lake, ROWS, table())
    rows = read_published(lake, table())
    with connect_to_source(hold(Path(str(lake.target.root)), ROWS), "things") as connection:
        source = find_table(connection, table(), None)
        plan = plan_comparison(table(), source.name, source.types, rows.columns)
        (part,) = bucket_parts(source.reader.PARTS)
        found = compare_buckets(
            digest_gold(rows, plan, [part]), connection, source.reader, plan, part
        )
    assert found == (4, 4, [])
    assert plan.left_out == ()


def test_every_row_that_differs_is_named(lake: Lake) -> None:
    changed = (1, Decimal("10.51"), *ROWS[0][2:])
    found = judge(lake, [changed, *ROWS[1:3]], ROWS[:2] + ROWS[3:])
    named = sorted((d.key["id"] or "", d.what) for d in found.real)
    assert named == [("1", "different"), ("3", "missing at the source"), ("4", "missing in gold")]
    (one,) = [d for d in found.real if d.what == "different"]
    assert (one.gold, one.source) == ({"price": "10.51"}, {"price": "10.5"})
    assert (found.gold_rows, found.source_rows, found.in_flight) == (3, 3, [])


def test_rows_without_a_key_are_compared_as_often_as_they_come(lake: Lake) -> None:
    found = judge(lake, [ROWS[0], *ROWS[:3]], [*ROWS[:3], ROWS[1]], keys=())
    assert sorted((d.key["id"] or "", d.what) for d in found.real) == [
        ("1", "missing at the source"),
        ("2", "missing in gold"),
    ]


def test_a_table_that_the_source_lacks_is_named_with_what_there_is(lake: Lake) -> None:
    url = hold(Path(str(lake.target.root)), ROWS)
    with (
        connect_to_source(url, "things") as connection,
        pytest.raises(TableFailed, match=r"main\.things; name the table with --source-table"),
    ):
        find_table(connection, table(), "shop.nothing")


def test_a_database_that_does_not_answer_has_an_exit_code_of_its_own() -> None:
    with (
        pytest.raises(SourceUnreachable, match="cannot be reached") as raised,
        connect_to_source("sqlite:////nowhere/at/all.db", "things"),
    ):
        pass
    assert raised.value.exit_code == 3


def test_a_query_that_fails_is_a_failure_of_the_table() -> None:
    with (
        pytest.raises(TableFailed, match="its source database says"),
        connect_to_source("sqlite://", "things") as connection,
    ):
        connection.execute(text("SELECT 1 FROM nothing"))
