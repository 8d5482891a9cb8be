"""The captured events of the shop in MariaDB, and what the server held after them."""

import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lakehouse.config.table import Table
from tests.helpers.mariadb_truth import TRUE_NAMES, Row

FOLDER = Path(__file__).parents[1] / "fixtures" / "mariadb"


class Held(NamedTuple):
    """A table at the end of the capture.

    `types` are those of the server; `declared` are the columns as `init --source` drafts them.
    """

    keys: list[str]
    types: Mapping[str, str]
    declared: Mapping[str, str]
    rows: list[Row]


def _text(name: str) -> str:
    return gzip.decompress((FOLDER / f"{name}.gz").read_bytes()).decode()


HELD = {name: Held(**held) for name, held in json.loads(_text("truth.json")).items()}


@cache
def records() -> list[dict[str, Any]]:
    """All records in order of arrival; they have schema blocks."""
    return [json.loads(line) for line in _text("events.jsonl").split("\n")[:-1]]


def captured(name: str, blocks: bool) -> list[dict[str, Any]]:
    """The records of a table, with schema blocks or as the converter writes them without."""
    own = [record for record in records() if record["topic"] == _topic(name)]
    return own if blocks else [plain(record) for record in own]


def plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without its schema blocks."""
    parts = {part: record[part] and record[part]["payload"] for part in ("key", "value")}
    return dict(record) | parts


def table(name: str, blocks: bool) -> Table:
    """A table of which nothing is declared, or what records without schema blocks need."""
    source = {"format": "debezium", "path": "shop", "topic": _topic(name)}
    declared = {"decimal_handling_mode": "precise"}
    given = {"table": name, "keys": HELD[name].keys}
    if blocks:
        return Table.model_validate(given | {"source": source})
    return Table.model_validate(
        given | {"source": source | declared, "columns": HELD[name].declared}
    )


def _topic(name: str) -> str:
    return f"shop.shop.{TRUE_NAMES.get(name, name).replace(' ', '_')}"
