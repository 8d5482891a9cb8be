"""Bronze rows as the bronze layer makes them, from records written in a test or captured ones."""

import gzip
import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bronze.contract import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOP = Path(__file__).parents[1] / "fixtures" / "shop"
SCHEMA = ", ".join(f"{column.name} {column.type}" for column in COLUMNS) + ", _feed string"
AT = datetime(2026, 1, 1, tzinfo=timezone.utc)


def captured(capture: str, table: str | None = None) -> list[dict[str, Any]]:
    """Records of a capture in order of arrival, of one table's topic where it is named."""
    with gzip.open(SHOP / "events" / f"{capture}.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [r for r in records if table is None or r["topic"] == f"shop.shop.{table}"]


def whole_rows(spark: "SparkSession", records: Iterable[Mapping[str, Any]]) -> "DataFrame":
    """Whole records dropped as lines of a file."""
    rows = [_whole(at, record) for at, record in enumerate(records)]
    return spark.createDataFrame(rows, SCHEMA)


def plain_rows(spark: "SparkSession", lines: Iterable[object]) -> "DataFrame":
    """Values dropped as lines of a file; text is taken as it is, anything else as JSON."""
    texts = [line if isinstance(line, str) or line is None else _text(line) for line in lines]
    return spark.createDataFrame([_row(at, text) for at, text in enumerate(texts)], SCHEMA)


def _whole(at: int, record: Mapping[str, Any]) -> dict[str, object]:
    return {
        **_row(at, _text(record)),
        "_topic": record.get("topic"),
        "_partition": record.get("partition"),
        "_offset": record.get("offset"),
        "_key": _text(record.get("key")),
        "_headers": _text(record.get("headers")),
        "_whole": True,
    }


def _row(at: int, raw: str | None) -> dict[str, object]:
    empty: dict[str, object] = dict.fromkeys(column.name for column in COLUMNS)
    return {
        **empty,
        "_raw": raw,
        "_file": "shop.jsonl",
        "_line": at,
        "_whole": False,
        "_batch": 1,
        "_feed": "shop",
        "_arrived_at": AT,
        "_arrival": f"{at:020d}",
    }


def _text(value: object) -> str | None:
    if value is None:
        return None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
