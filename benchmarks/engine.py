"""What every competitor can do, so that one loop measures them all."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

Files = Sequence[Path]


class Engine(NamedTuple):
    """A way to keep a table up to date from files of changes.

    `load` takes the files of the first snapshot, `apply` those of a batch; it may tell seconds of
    its parts. `rows` is the table as a reader sees it.
    """

    name: str
    load: Callable[[Files], Mapping[str, float]]
    apply: Callable[[Files], Mapping[str, float]]
    rows: Callable[[], pl.DataFrame]
