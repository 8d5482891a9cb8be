"""What a measurement found, where it was made, and how it is kept."""

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

KEPT = Path(__file__).parent / "results"
_PACKAGES = ("cdc-lakehouse", "pyspark", "delta-spark", "polars", "deltalake")


class Line(NamedTuple):
    """One competitor: seconds of each counted run, wrong rows at the end, seconds by part.

    `queries` are the Spark queries of one run of one table, by their kind.
    """

    name: str
    seconds: list[float]
    wrong: int | None = None
    parts: Mapping[str, float] | None = None
    queries: Mapping[str, float] | None = None

    @property
    def median(self) -> float:
        """The run in the middle."""
        return statistics.median(self.seconds)

    @property
    def mean(self) -> float:
        """What a run takes where not all do the same."""
        return statistics.mean(self.seconds)


class Result(NamedTuple):
    """The answer to one question: its competitors, and the command that found it."""

    name: str
    question: str
    subject: str
    command: str
    made_on: str
    lines: list[Line]


def machine() -> str:
    """Processor, those this process may use, memory, and the versions of what is measured."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    processors = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES)
    return (
        f"{model}, {processors} processors, {memory:.0f} GiB, {platform.system()}, "
        f"Python {platform.python_version()}, {versions}"
    )


def keep(result: Result, folder: Path = KEPT) -> Path:
    """Writes the result as JSON; an earlier one of the same name is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{result.name}.json"
    lines = [line._asdict() for line in result.lines]
    file.write_text(json.dumps(result._asdict() | {"lines": lines}, indent=1) + "\n")
    return file


def kept(folder: Path = KEPT) -> list[Result]:
    """All results of measured seconds that are kept, by name."""
    documents = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    timed = [document for document in documents if "lines" in document]
    return [Result(**d | {"lines": [Line(**line) for line in d["lines"]]}) for d in timed]


def table(lines: Sequence[Line]) -> str:
    """The lines as a Markdown table: seconds, means as multiples of the first, wrong rows."""
    first = lines[0].mean
    rows = [
        f"| {line.name} | {line.median:.2f} | {line.mean:.2f} "
        f"| {min(line.seconds):.2f} to {max(line.seconds):.2f} "
        f"| {line.mean / first:.2f} | {_wrong(line.wrong)} |"
        for line in lines
    ]
    head = (
        "| | seconds (median) | mean | from, to | mean, first line = 1 | wrong rows |\n"
        "|---|---|---|---|---|---|"
    )
    return "\n".join([head, *rows])


def _wrong(count: int | None) -> str:
    return "" if count is None else "none" if count == 0 else f"**{count:,}**"
