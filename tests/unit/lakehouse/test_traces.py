import gzip
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.storage.traces import build_pattern, find_traces

NAME = 'Zoë "Z" O\'Neil'


def found(folder: Path, *values: str) -> list[tuple[str, int]]:
    return [(Path(file).name, places) for file, places in find_traces(folder, values)]


def test_values_are_found_in_parquet_text_and_gzip_but_not_in_scratch(tmp_path: Path) -> None:
    rows = {"raw": [json.dumps({"name": NAME}), None], "n": [1, 2], "tags": [[NAME], ["x"]]}
    (tmp_path / "silver" / "t").mkdir(parents=True)
    pq.write_table(pa.table(rows), tmp_path / "silver" / "t" / "a.parquet")
    (tmp_path / "old.json").write_text(json.dumps({"max": NAME}), encoding="utf-8")
    (tmp_path / "page.html.gz").write_bytes(gzip.compress(f"<td>{NAME}</td>".encode()))
    (tmp_path / "_tmp").mkdir()
    (tmp_path / "_tmp" / "shuffle").write_text(NAME, encoding="utf-8")
    assert found(tmp_path, NAME) == [("old.json", 1), ("page.html.gz", 1), ("a.parquet", 2)]
    assert found(tmp_path, "Zoe") == []
    assert found(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "there"), [("Anna", True), ("(Anna)", True), ("Annabel", False), ("Joanna", False)]
)
def test_a_value_counts_where_it_stands_as_a_whole(text: str, there: bool) -> None:
    assert bool(re.search(build_pattern(["Anna"]), text)) is there
