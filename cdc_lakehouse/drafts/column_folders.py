"""Folders named `name=value`, which are columns of the table above them."""

from collections.abc import Sequence
from pathlib import Path

from bronze.contract import folder_columns
from cdc_lakehouse.drafts.sample_files import Object, Sample

_READ_BY = ("rows", "bigquery", "snapshot")


def find_own_folder(file: Path) -> Path:
    """The folder that a file lies in; where it is named `name=value`, the next that is not."""
    folder = file.absolute().parent
    while folder_columns(f"{folder.name}/"):
        folder = folder.parent
    return folder


def with_folder_columns(
    sample: Sample, files: Sequence[Path], rows_of: Sequence[Sequence[Object]]
) -> Sample:
    """The sample with a column of text for each folder `name=value` that its files lie in.

    Where files of two such folders have rows with the same key, the keys are to be checked.

    `rows_of` are the rows of each file. Columns that rows have themselves are left as they are.
    """
    if sample.format not in _READ_BY:
        return sample
    below = [file.absolute().relative_to(find_own_folder(file)).as_posix() for file in files]
    of_rows = {name.lower() for name in sample.columns}
    given = [
        {n: value for n, value in folder_columns(path).items() if n.lower() not in of_rows}
        for path in below
    ]
    names = dict.fromkeys(name for values in given for name in values)
    columns = {**sample.columns, **dict.fromkeys(names, "string")}
    seen: dict[str, str] = {}
    is_shared = False
    for values, rows in zip(given, rows_of, strict=True):
        keyed = ([row.get(name) for name in sample.keys] for row in rows)
        for key in {repr(key) for key in keyed if None not in key}:
            is_shared = is_shared or seen.setdefault(key, repr(values)) != repr(values)
    if not is_shared or not sample.keys:
        return sample._replace(columns=columns)
    note = f"rows of another {'/'.join(names)} have the same {' and '.join(sample.keys)}"
    before = sample.notes.get("keys")
    notes = {**sample.notes, "keys": f"{before}; {note}" if before else note}
    return sample._replace(columns=columns, notes=notes)
