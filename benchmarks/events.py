"""Changes as Debezium writes them, made to measure: late, repeated, out of order, with deletes.

A workload is a first snapshot of `rows` rows, then batches of `changes` changes. Of a batch's
changes about 70 % are updates, 14 % inserts and 12 % deletes; 2 % are held back and arrive a batch
later, among them updates of rows whose delete has arrived by then; 2 % are delivered twice; and all
are shuffled within a batch. With `in_order` none of this happens: each change arrives once, in the
order of the source. The same workload is the same bytes, on every machine.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

Keys = Literal["number", "text", "composite", "time"]
Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]

FIRST_LSN, LSN_STEP = 1_000_000_000, 120
FIRST_MOMENT = 1_767_225_600_000_000
STATES = ["new", "paid", "packed", "sent", "returned"]
PER_FILE = 100_000


class Workload(NamedTuple):
    """What is generated: `hot` is the share of the updates that fall on 1 % of the keys.

    `recent` is the share of updates and deletes that fall on the newest 5 % of the keys, which
    grow: numbers, or (`time`) UUIDs that begin with their time.

    `tables` is the number of tables of the parts `fixed` and `many`, which choose their rows and
    changes. `in_order`: no change is late or repeated.
    """

    rows: int = 1_000_000
    changes: int = 100_000
    width: int = 7
    keys: Keys = "number"
    hot: float = 0.0
    seed: int = 1
    tables: int = 20
    recent: float = 0.0
    in_order: bool = False

    @property
    def title(self) -> str:
        """One line for a person."""
        keys = f"{self.keys} keys" + (f", {self.hot:.0%} of updates on 1 %" if self.hot else "")
        if self.recent:
            keys += f", {self.recent:.0%} of changes on the newest 5 %"
        keys += ", each change once and in order" if self.in_order else ""
        return f"{self.rows:,} rows of {self.width} columns, {keys}, {self.changes:,} a batch"


class Column(NamedTuple):
    """A column of the generated table: its Spark SQL type, and its value as text or number."""

    name: str
    type: str
    value: pl.Expr


def key_columns(work: Workload) -> list[Column]:
    """The columns that identify a row, from its number `row`."""
    row = pl.col("row")
    if work.keys == "text":
        mixed = (row * 2_654_435_761) % 4_294_967_296
        text = pl.concat_str(pl.lit("K"), mixed.cast(pl.String), pl.lit("-"), row.cast(pl.String))
        return [Column("id", "string", text)]
    if work.keys == "time":
        micros = (FIRST_MOMENT // 1000 + row).cast(pl.String).str.zfill(16)
        mixed = ((row * 2_654_435_761) % 4_294_967_296).cast(pl.String).str.zfill(12)
        parts = (micros.str.slice(0, 8), micros.str.slice(8, 4), micros.str.slice(12, 4))
        uuid = pl.concat_str(*parts, pl.lit("8000"), mixed, separator="-")
        return [Column("id", "string", uuid)]
    if work.keys == "composite":
        region = pl.concat_str(pl.lit("region "), (row % 16).cast(pl.String))
        return [Column("region", "string", region), Column("number", "bigint", row)]
    return [Column("id", "bigint", row)]


def columns(work: Workload) -> list[Column]:
    """All columns of the table, keys first; values follow from the row and the LSN."""
    at = pl.col("row") * 31 + pl.col("lsn") // LSN_STEP * 17
    cents = at * 7 % 10_000_000
    own = [
        Column("customer", "bigint", at % 50_000),
        Column("state", "string", pl.lit(pl.Series(STATES)).gather(at % len(STATES))),
        Column("total", "decimal(12,2)", _decimal(cents)),
        Column("quantity", "int", (at % 97).cast(pl.Int32)),
        Column("updated_at", "timestamp", _moment(commit_micros(pl.col("lsn")))),
        Column("note", "string", _note(at)),
    ]
    more = [
        Column(f"c{n}", "string" if n % 3 == 0 else "bigint", _filler(at, n))
        for n in range(max(0, work.width - len(own) - len(key_columns(work))))
    ]
    return [*key_columns(work), *own, *more]


def _decimal(cents: pl.Expr) -> pl.Expr:
    part = (cents % 100).cast(pl.String).str.zfill(2)
    return pl.concat_str((cents // 100).cast(pl.String), pl.lit("."), part)


def _note(at: pl.Expr) -> pl.Expr:
    text = pl.concat_str(pl.lit("note "), (at * 131 % 999_983).cast(pl.String))
    return pl.when(at % 11 != 0).then(text)


def _filler(at: pl.Expr, n: int) -> pl.Expr:
    number = at * (n + 3) % 1_000_003
    return pl.concat_str(pl.lit("v"), number.cast(pl.String)) if n % 3 == 0 else number


def commit_micros(lsn: pl.Expr) -> pl.Expr:
    """When the transaction at this LSN was committed, in microseconds since 1970."""
    return FIRST_MOMENT + (lsn - FIRST_LSN) // LSN_STEP * 250


def _last_commit() -> pl.Expr:
    """The commit before a change, each of which is a transaction; a snapshot knows none."""
    commit = pl.format('"{}"', pl.col("lsn") - LSN_STEP // 2)
    return pl.when(pl.col("mark") == "false").then(commit).otherwise(pl.lit("null"))


def _moment(micros: pl.Expr) -> pl.Expr:
    return pl.from_epoch(micros, time_unit="us").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")


def snapshot(work: Workload) -> pl.DataFrame:
    """The rows of the first snapshot as changes: `row`, `lsn`, `op`, `mark` (source.snapshot)."""
    mark = np.full(work.rows, "true", dtype="U5")
    mark[0], mark[-1] = "first", "last"
    rows = pl.DataFrame({"row": np.arange(work.rows), "mark": mark})
    return rows.with_columns(lsn=pl.lit(FIRST_LSN, pl.Int64), op=pl.lit("r"))


def batches(work: Workload) -> Iterator[pl.DataFrame]:
    """Batch after batch of the stream, in order of arrival, without end."""
    random = np.random.default_rng(work.seed)
    alive = np.ones(work.rows, dtype=bool)
    held = _changes([], [], [])
    lsn = FIRST_LSN + LSN_STEP
    while True:
        made, alive = _made(work, random, alive, work.changes * 98 // 100)
        stream = made.with_columns(lsn=lsn + pl.int_range(pl.len(), dtype=pl.Int64) * LSN_STEP)
        lsn += stream.height * LSN_STEP
        if work.in_order:
            yield stream.drop("late").with_columns(mark=pl.lit("false"))
            continue
        late = stream["late"] | pl.Series(random.random(stream.height) < 0.018)
        now = pl.concat([held, stream.filter(~late).drop("late")])
        again = max(work.changes - now.height, 0)
        repeated = now.sample(again, seed=int(random.integers(1 << 31)))
        arrived = pl.concat([now, repeated])
        yield arrived[random.permutation(arrived.height)].with_columns(mark=pl.lit("false"))
        held = stream.filter(late).drop("late")


def _changes(row: list[int], lsn: list[int], op: list[str]) -> pl.DataFrame:
    schema = {"row": pl.Int64, "op": pl.String, "lsn": pl.Int64}
    return pl.DataFrame({"row": row, "op": op, "lsn": lsn}, schema=schema)


def _made(
    work: Workload, random: np.random.Generator, alive: np.ndarray, count: int
) -> tuple[pl.DataFrame, np.ndarray]:
    """So many changes in source order, and which rows are alive after them.

    `late` marks updates that are overtaken by the delete of their row.
    """
    living = np.flatnonzero(alive)
    inserts, deletes, doomed = count * 14 // 100, count * 12 // 100, count // 800
    new = np.arange(alive.size, alive.size + inserts)
    dead = _dead(random, living, deletes - inserts // 100, work.recent)
    staying = alive.copy()
    staying[dead] = False
    updates = count - inserts - deletes - doomed
    updated = _picked(random, np.flatnonzero(staying), updates, work)
    first = [(updated, "u"), (new, "c")]
    order = random.permutation(updates + inserts)
    rows = np.concatenate([rows for rows, _ in first])[order]
    ops = np.repeat([op for _, op in first], [updates, inserts])[order]
    gone = np.concatenate([dead, new[: inserts // 100]])
    row = np.concatenate([rows, dead[:doomed], gone])
    op = np.concatenate([ops, np.full(doomed, "u"), np.full(gone.size, "d")])
    late = np.zeros(row.size, dtype=bool)
    late[rows.size : rows.size + doomed] = True
    after = np.concatenate([staying, np.ones(inserts, dtype=bool)])
    after[gone] = False
    return pl.DataFrame({"row": row, "op": op, "late": late}), after


def _picked(
    random: np.random.Generator, living: np.ndarray, count: int, work: Workload
) -> np.ndarray:
    few = living[: max(1, living.size // 100)]
    favoured, share = (_newest(living), work.recent) if work.recent else (few, work.hot)
    many = int(count * share)
    return np.concatenate([random.choice(favoured, many), random.choice(living, count - many)])


def _dead(random: np.random.Generator, living: np.ndarray, count: int, recent: float) -> np.ndarray:
    if not recent:
        return random.choice(living, count, replace=False)
    many, newest = int(count * recent), _newest(living)
    parts = (newest, many), (living[: -newest.size], count - many)
    return np.concatenate([random.choice(rows, n, replace=False) for rows, n in parts])


def _newest(living: np.ndarray) -> np.ndarray:
    return living[-max(1, living.size // 20) :]


def lines(work: Workload, changes: pl.DataFrame) -> pl.Series:
    """The changes as Debezium's JSON, one text each."""
    own = [column.value.alias(column.name) for column in columns(work)]
    keys = [column.value.alias(column.name) for column in key_columns(work)]
    dead = pl.col("op") == "d"
    micros = commit_micros(pl.col("lsn"))
    source = {
        "version": pl.lit("3.6.3.Final"),
        "connector": pl.lit("postgresql"),
        "name": pl.lit("shop"),
        "ts_ms": micros // 1000,
        "snapshot": pl.col("mark"),
        "db": pl.lit("shop"),
        "sequence": pl.format('[{},"{}"]', _last_commit(), pl.col("lsn")),
        "ts_us": micros,
        "schema": pl.lit("public"),
        "table": pl.lit("orders"),
        "txId": pl.col("lsn") // LSN_STEP,
        "lsn": pl.col("lsn"),
        "xmin": pl.lit(None, dtype=pl.Int64),
    }
    event = pl.struct(
        before=pl.when(dead).then(pl.struct(keys)),
        after=pl.when(~dead).then(pl.struct(own)),
        source=pl.struct(value.alias(name) for name, value in source.items()),
        op=pl.col("op"),
        ts_ms=micros // 1000 + 40,
    )
    return changes.select(event.struct.json_encode().alias("line"))["line"]


def write(work: Workload, changes: pl.DataFrame, folder: Path, stem: str) -> list[Path]:
    """Writes the changes in files of 100,000 lines; each appears whole."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _drop(lines(work, part), folder, f"{stem}-{at:04d}.jsonl")
        for at, part in enumerate(changes.iter_slices(PER_FILE))
    ]


def _drop(texts: pl.Series, folder: Path, name: str) -> Path:
    aside, place = folder / f".{name}", folder / name
    with aside.open("w", encoding="utf-8") as file:
        file.write("\n".join(texts))
        file.write("\n")
    return aside.rename(place)
