"""Compares gold's rows with a source database: digests by bucket first, then only what differs.

Both sides reduce each row to two digests, of its key and of its content, and each bucket of keys to
a count and a sum. Where these differ the rows' digests are read, and where those differ the rows.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from types import ModuleType
from typing import NamedTuple, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from sqlalchemy import Connection

from gold.source_check.plan import BUCKETS, ComparisonPlan, ExactRow, gold_texts
from gold.source_check.texts import is_equal

BUCKETS_AT_ONCE, KEYS_AT_ONCE = 128, 500
Row = tuple[str | None, ...]
Item = TypeVar("Item")


class Difference(NamedTuple):
    """A row that is not the same on both sides.

    Its key (of a table without one the whole row), what differs, both texts of each such column,
    and the source transaction that wrote the source's row, where known. `gold` or `source` is None
    where that side lacks the row.
    """

    id: str
    key: dict[str, str | None]
    gold: dict[str, str | None] | None
    source: dict[str, str | None] | None
    written_by: str | None = None

    @property
    def what(self) -> str:
        """What differs, in a few words."""
        if self.gold is None:
            return "missing in gold"
        return "missing at the source" if self.source is None else "different"


class Comparison(NamedTuple):
    """How many rows both sides have, and the keys (as digests) that differ."""

    gold: int
    source: int
    ids: list[str]


class GoldDigests(NamedTuple):
    """Gold's rows as digests, and of each bucket the rows and the sum of their digests."""

    rows: DataFrame
    buckets: dict[int, tuple[int, int]]


def bucket_parts(parts: int) -> list[range]:
    """The buckets in so many parts of about equal size."""
    return [range(BUCKETS * n // parts, BUCKETS * (n + 1) // parts) for n in range(parts)]


def digest_gold(rows: DataFrame, plan: ComparisonPlan, parts: Sequence[range]) -> GoldDigests:
    """Digests gold's rows of these parts of the buckets, in one reading."""
    digested = _digest_rows(rows, plan)
    ranges = [f"bucket BETWEEN {part[0]} AND {part[-1]}" for part in parts]
    return GoldDigests(digested, _sum_buckets(digested.where(" OR ".join(ranges) or "false")))


def compare_buckets(
    gold: GoldDigests, connection: Connection, reader: ModuleType, plan: ComparisonPlan, part: range
) -> Comparison:
    """Finds the keys of a part of the buckets that differ; gold has been read before the source.

    The source is read in the connection's one transaction by the `reader`, a module for this kind
    of database.
    """
    ours = {bucket: gold.buckets[bucket] for bucket in part if bucket in gold.buckets}
    theirs = reader.read_bucket_digests(connection, plan, part)
    differ = sorted(b for b in {*ours, *theirs} if ours.get(b) != theirs.get(b))
    ids: list[str] = []
    for chosen in _split_items(differ, BUCKETS_AT_ONCE):
        listed = ", ".join(map(str, chosen))
        rows = gold.rows.where(f"bucket IN ({listed})").select("k", "d").toLocalIterator()
        in_gold = Counter((row["k"], row["d"]) for row in rows)
        at_source = Counter(reader.read_row_digests(connection, plan, chosen))
        ids += sorted({key for key, _ in (in_gold - at_source) + (at_source - in_gold)})
    gold_rows, source_rows = (sum(n for n, _ in side.values()) for side in (ours, theirs))
    return Comparison(gold_rows, source_rows, ids)


def find_differences(
    rows: DataFrame,
    connection: Connection,
    reader: ModuleType,
    plan: ComparisonPlan,
    ids: Sequence[str],
) -> Iterator[Difference]:
    """The rows of these keys that really differ, value by value."""
    for chosen in _split_items(list(ids), KEYS_AT_ONCE):
        ours: dict[str, list[Row]] = {}
        for row in _read_exact(rows, plan, chosen):
            ours.setdefault(row[0], []).append(tuple(row[1:]))
        theirs: dict[str, list[ExactRow]] = {}
        for exact in reader.read_exact(connection, plan, chosen):
            theirs.setdefault(exact.key, []).append(exact)
        for key in chosen:
            yield from _compare_key(key, ours.get(key, []), theirs.get(key, []), plan)


def _compare_key(
    key: str, ours: list[Row], theirs: list[ExactRow], plan: ComparisonPlan
) -> Iterator[Difference]:
    """The rows of a key that have no equal row on the other side, in pairs."""
    only_source = list(theirs)
    only_gold = []
    for row in ours:
        equal = next((t for t in only_source if _is_same_row(row, t.texts, plan)), None)
        if equal is None:
            only_gold.append(row)
        else:
            only_source.remove(equal)
    for mine, other in zip_longest(only_gold, only_source):
        yield _build_difference(key, mine, other, plan)


def _is_same_row(ours: Row, theirs: Row, plan: ComparisonPlan) -> bool:
    return all(is_equal(a, b, c.kind) for a, b, c in zip(ours, theirs, plan.columns, strict=True))


def _build_difference(
    key: str, ours: Row | None, exact: ExactRow | None, plan: ComparisonPlan
) -> Difference:
    theirs, by = (None, None) if exact is None else (exact.texts, exact.written_by)
    row = ours or theirs or ()
    named = plan.columns[: plan.keys] or plan.columns
    differ = [
        at
        for at, c in enumerate(plan.columns)
        if ours is None or theirs is None or not is_equal(ours[at], theirs[at], c.kind)
    ]

    def select_differing(texts: Row | None) -> dict[str, str | None] | None:
        return None if texts is None else {plan.columns[at].name: texts[at] for at in differ}

    key_values = {c.name: row[at] for at, c in enumerate(named)}
    return Difference(key, key_values, select_differing(ours), select_differing(theirs), by)


def _digest_rows(rows: DataFrame, plan: ComparisonPlan) -> DataFrame:
    texts = gold_texts(rows, plan)
    number = F.conv(F.substring("k", 1, 8), 16, 10).cast("bigint")
    keyed = texts.select(_digest_key(plan).alias("k"), _digest_first(len(plan.columns)).alias("d"))
    return keyed.withColumn("bucket", (number % BUCKETS).cast("int"))


def _digest_key(plan: ComparisonPlan) -> Column:
    return _digest_first(plan.keys or len(plan.columns))


def _digest_first(columns: int) -> Column:
    """As in `rows.digest_texts`, of the first columns."""
    texts = [F.col(f"c{at}") for at in range(columns)]
    marked = [
        F.coalesce(F.concat(F.lit("v"), F.length(t).cast("string"), F.lit(":"), t), F.lit("n"))
        for t in texts
    ]
    return F.md5(F.concat(*marked))


def _sum_buckets(digested: DataFrame) -> dict[int, tuple[int, int]]:
    number = F.conv(F.substring("d", 1, 15), 16, 10).cast("decimal(38,0)")
    sums = digested.groupBy("bucket").agg(F.count("*").alias("n"), F.sum(number).alias("total"))
    return {row["bucket"]: (row["n"], int(row["total"])) for row in sums.collect()}


def _read_exact(
    rows: DataFrame, plan: ComparisonPlan, ids: Sequence[str]
) -> Sequence[Sequence[str]]:
    """Key digest and exact texts of gold's rows of these keys."""
    keyed = gold_texts(rows, plan).withColumn("k", _digest_key(plan)).where(F.col("k").isin([*ids]))
    return keyed.select("k", *[f"e{at}" for at in range(len(plan.columns))]).collect()


def _split_items(items: list[Item], size: int) -> Iterable[list[Item]]:
    return (items[at : at + size] for at in range(0, len(items), size))
