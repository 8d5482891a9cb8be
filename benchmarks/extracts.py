"""Extracts of one table, day after day: 5 uuid columns are the key, 10 number columns the values.

From one day to the next the source deletes 20 % of the rows, changes 40 %, leaves 40 % as they are,
and adds as many as it deletes. The same seed gives the same files.

    python -m benchmarks.extracts FOLDER [--rows 10000] [--seed 1] [--days 2]
"""

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

KEYS = [f"key{n}" for n in range(1, 6)]
VALUES = [f"value{n}" for n in range(1, 11)]
DELETED, UPDATED = 0.2, 0.4
_DASHES = (8, 13, 18, 23)


def days(rows: int, seed: int) -> Iterator[pl.DataFrame]:
    """The rows of day 1, of day 2, and so on, keys first; each day in another order."""
    random = np.random.default_rng(seed)
    day = _new(random, rows)
    while True:
        yield day
        deleted, updated = int(rows * DELETED), int(rows * UPDATED)
        changed = _changed(random, day[deleted : deleted + updated])
        same, added = day[deleted + updated :], _new(random, deleted)
        day = pl.concat([changed, same, added])[random.permutation(rows)]


def write(folder: Path, rows: int = 10_000, seed: int = 1, count: int = 2) -> list[Path]:
    """FOLDER/day1, FOLDER/day2 and so on, one CSV file each; the folders."""
    places = [folder / f"day{at + 1}" for at in range(count)]
    for place, day in zip(places, itertools.islice(days(rows, seed), count), strict=True):
        place.mkdir(parents=True, exist_ok=True)
        day.write_csv(place / "extract.csv")
    return places


def _new(random: np.random.Generator, rows: int) -> pl.DataFrame:
    keys = [_uuids(random, rows).alias(name) for name in KEYS]
    return pl.DataFrame([*keys, *(_numbers(random, rows).alias(name) for name in VALUES)])


def _changed(random: np.random.Generator, rows: pl.DataFrame) -> pl.DataFrame:
    """Other values, at least the first of them different."""
    others = [_numbers(random, rows.height).alias(name) for name in VALUES[1:]]
    return rows.with_columns((pl.col(VALUES[0]) + 1).alias(VALUES[0]), *others)


def _numbers(random: np.random.Generator, rows: int) -> pl.Series:
    return pl.Series(random.integers(0, 1_000_000, rows))


def _uuids(random: np.random.Generator, rows: int) -> pl.Series:
    """Random uuids of version 4."""
    digits = np.frombuffer(random.bytes(16 * rows).hex().encode(), dtype="S1").reshape(rows, 32)
    texts = np.insert(digits, [at - dash for dash, at in enumerate(_DASHES)], b"-", axis=1)
    texts[:, 14], texts[:, 19] = b"4", b"a"
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(36), rows, [None, pa.py_buffer(np.ascontiguousarray(texts))]
    )
    return pl.Series(fixed.cast(pa.binary()).cast(pa.string()))


def main() -> None:
    """Write the extracts where the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--days", type=int, default=2)
    given = parser.parse_args()
    for place in write(given.folder, given.rows, given.seed, given.days):
        print(place)


if __name__ == "__main__":
    main()
