"""Two days of one extract: 5 uuid columns are the key, 10 number columns the values.

On day 2 the source has deleted 20 % of the rows, changed 40 %, left 40 % as they were, and added as
many as it deleted. The same seed gives the same files.

    python -m benchmarks.extracts FOLDER [--rows 10000] [--seed 1]
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from random import Random
from uuid import UUID

KEYS = [f"key{n}" for n in range(1, 6)]
VALUES = [f"value{n}" for n in range(1, 11)]
DELETED, UPDATED = 0.2, 0.4

Row = tuple[str | int, ...]


def days(rows: int, seed: int) -> tuple[list[Row], list[Row]]:
    """The rows of day 1 and of day 2, keys first; day 2 in another order."""
    random = Random(seed)
    first = [_row(random) for _ in range(rows)]
    deleted, updated = int(rows * DELETED), int(rows * UPDATED)
    changed = [(*row[: len(KEYS)], *_other(random, row)) for row in first[deleted:][:updated]]
    added = [_row(random) for _ in range(deleted)]
    second = [*changed, *first[deleted + updated :], *added]
    random.shuffle(second)
    return first, second


def write(folder: Path, rows: int = 10_000, seed: int = 1) -> tuple[Path, Path]:
    """FOLDER/day1 and FOLDER/day2, one CSV file each; the two folders."""
    places = folder / "day1", folder / "day2"
    for place, day in zip(places, days(rows, seed), strict=True):
        place.mkdir(parents=True, exist_ok=True)
        with (place / "extract.csv").open("w", newline="") as file:
            csv.writer(file).writerows([(*KEYS, *VALUES), *day])
    return places


def _row(random: Random) -> Row:
    return (*_uuids(random), *(random.randrange(1_000_000) for _ in VALUES))


def _uuids(random: Random) -> Iterator[str]:
    return (str(UUID(int=random.getrandbits(128), version=4)) for _ in KEYS)


def _other(random: Random, row: Row) -> Row:
    """Other values, at least the first of them different."""
    values = [random.randrange(1_000_000) for _ in VALUES]
    values[0] = int(row[len(KEYS)]) + 1
    return tuple(values)


def main() -> None:
    """Write the extracts where the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for place in write(given.folder, given.rows, given.seed):
        print(place)


if __name__ == "__main__":
    main()
