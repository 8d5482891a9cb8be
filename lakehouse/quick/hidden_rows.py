"""Which rows of a data file a deletion vector hides. Source: Delta's PROTOCOL.md."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

_MAGIC = (1681511377).to_bytes(4, "little")
_SIZE, _ID = 4, 20
"""Bytes of a vector's size in its file, and letters of a file's id."""


def read_hidden_rows(folder: Path, vector: Mapping[str, Any]) -> list[int]:
    """The numbers from 0 of the rows that a deletion vector of the table in the folder hides.

    Raises:
        ValueError: the vector is of another kind or version.
        OSError: its file cannot be read.
    """
    from pyroaring import BitMap64

    data = _bytes_of(folder, str(vector["storageType"]), vector)
    if data[:4] != _MAGIC:
        raise ValueError("a deletion vector of another version")
    return list(BitMap64.deserialize(data[4:]))


def _bytes_of(folder: Path, kind: str, vector: Mapping[str, Any]) -> bytes:
    written = str(vector["pathOrInlineDv"])
    if kind == "i":
        return base64.b85decode(_as_python(written))[: int(vector["sizeInBytes"])]
    if kind != "u":
        raise ValueError(f"a deletion vector of kind {kind}")
    prefix, letters = written[:-_ID], written[-_ID:]
    id = UUID(bytes=base64.b85decode(_as_python(letters)))
    with (folder / prefix / f"deletion_vector_{id}.bin").open("rb") as file:
        file.seek(int(vector.get("offset") or 0) + _SIZE)
        return file.read(int(vector["sizeInBytes"]))


_OF_DELTA = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_OF_PYTHON = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"


def _as_python(z85: str) -> str:
    """Translates base 85 from ZeroMQ's alphabet, which Delta uses, to Python's."""
    return z85.translate(str.maketrans(_OF_DELTA, _OF_PYTHON))
