"""`python -m tests.helpers.function_memory WORK`: runs a function of Spark's tasks.

Prints the most memory, in MB, that the process had.
"""

import io
import json
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bronze.files.json_files import split_files
from bronze.files.parquet_files import json_rows
from silver.decode.arrow import DiscoveryPlan, decode_batches, discover_batches
from silver.decode.columns import known_columns
from silver.fold.arrow import fold_batches
from tests.unit.silver.decode import test_arrow as records
from tests.unit.silver.fold import test_arrow as changes

FILE = 120_000_000


def main(work: str) -> int:
    """Take what the function gives and drop it, as a task that writes it does."""
    deque(WORKS[work](), maxlen=0)
    lines = Path("/proc/self/status").read_text().splitlines()  # ru_maxrss counts the parent's
    print(next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM:")))
    return 0


def raws(batches: int, rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """Batches of so many records, each of about so many bytes."""
    for number in range(batches):
        text = "x" * size
        yield records.batch([records.event(number * rows + at, name=text) for at in range(rows)])


def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[object]:
    return decode_batches(records.plan(records.EVENTS, keeps_raw=True), batches)


def discover() -> Iterator[object]:
    columns = known_columns(records.EVENTS, {})
    return discover_batches(DiscoveryPlan(records.EVENTS, columns), raws(3, 10_000, 6_000))


def fold() -> Iterator[object]:
    return fold_batches(changes.plan(history=True), changes.hot_key(200_000, partial=True))


def array() -> Iterator[object]:
    """A dropped file that is one JSON array."""
    row = {"id": 1, "text": "x" * 1_000}
    text = json.dumps([row] * (FILE // 1_000)).encode()
    return split_files(iter([_file(text)]))


def parquet() -> Iterator[object]:
    """A dropped Parquet file that Spark cannot read."""
    texts = pa.table({"text": [f"{at:0500d}" for at in range(10_000)]})
    file = io.BytesIO()
    with pq.ParquetWriter(file, texts.schema, compression="none", use_dictionary=False) as writer:
        for _ in range(FILE // (10_000 * 500)):
            writer.write_table(texts)
    return json_rows(iter([_file(file.getvalue())]))


def _file(content: bytes) -> pa.RecordBatch:
    columns = [pa.array([content], pa.binary()), pa.array(["file:/a"])]
    return pa.RecordBatch.from_arrays(columns, names=["content", "_url"])


WORKS: dict[str, Callable[[], Iterator[object]]] = {
    "decode small records": lambda: decode(raws(3, 10_000, 6_000)),
    "decode large records": lambda: decode(raws(2, 30, 5_000_000)),
    "discover": discover,
    "fold": fold,
    "array": array,
    "parquet": parquet,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
