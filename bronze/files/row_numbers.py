"""Numbers the rows of a split: what Spark's tasks call, so it imports no other module of bronze."""

from collections.abc import Iterator

import numpy as np
import pandas as pd


def number_rows(splits: Iterator[pd.Series]) -> Iterator[pd.Series]:
    """The number of each row in its split, from 0; `splits` names the split of a task's rows.

    A task reads its splits one after the other, each from its beginning.
    """
    last, following = None, 0
    for names in splits:
        split, at = names.to_numpy(), np.arange(len(names))
        if len(split):
            begins = np.append(split[0] != last, split[1:] != split[:-1])
            rows = at - np.maximum.accumulate(np.where(begins, at, -following))
            last, following = split[-1], int(rows[-1]) + 1
            at = rows
        yield pd.Series(at)
