"""A table's first YAML, written from a sample of its events for a person to check."""

from pathlib import Path

import yaml

from lakehouse.errors import ConfigurationError
from lakehouse.sample import Sample, read_sample
from lakehouse.unpacking import unpack_table

SCHEMA_LINE = "# yaml-language-server: $schema=../table.schema.json"


def write_draft(table: str, sample: Path, conf: Path) -> Path:
    """Write conf/tables/TABLE.yml; a file that is there is left alone.

    Raises:
        ConfigurationError: the file is there, or the sample cannot be used.
    """
    file = conf / "tables" / f"{table}.yml"
    if file.exists():
        found, action = "a file that is there", "remove it first, or choose another name"
        raise ConfigurationError(str(file), "table", found, "a new table", action)
    text = draft(table, read_sample(sample, table), folder=sample.parent.name or table)
    unpack_table(yaml.safe_load(text), str(file))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def draft(table: str, sample: Sample, folder: str) -> str:
    """The YAML's text; what was guessed carries a comment that begins with `check`."""
    lines = [SCHEMA_LINE, f"table: {table}", "source:", f"  format: {sample.format}"]
    lines += [f"  path: {_written(folder)}  # check: folder of the files, below the landing root"]
    lines += [f"  topic: {_written(sample.topic)}"] if sample.topic else []
    lines += [f"  file_format: {sample.file_format}"] if sample.file_format != "json" else []
    lines += [f"keys: [{', '.join(map(_written, sample.keys))}]{_doubt(sample)}"]
    if sample.sequence_by:
        lines += [f"sequence_by: {_written(sample.sequence_by)}  # check: orders a key's changes"]
    if sample.deletes:
        lines += [f"apply_as_deletes: {_written(sample.deletes)}  # check"]
        operation = sample.deletes.partition(" ")[0]
        lines += [f"except_column_list: [{_written(operation)}]"]
    declared = [f"  {_written(name)}: {kind}" for name, kind in sample.columns.items()]
    lines += ["columns:", *declared] if declared else []
    if sample.guessed:
        lines += ["  # check: seen, but not declared; decimals, dates and times must be"]
        lines += [f"  # {_written(name)}: {kind}" for name, kind in sample.guessed.items()]
    return "\n".join(lines) + "\n"


def _doubt(sample: Sample) -> str:
    if sample.format == "ydb":
        return "  # check: records do not name their key columns, give them in order"
    if sample.format == "debezium" and not sample.keys:
        return "  # check: the records name no key; a table without one keeps equal rows"
    return "" if sample.format == "debezium" and sample.topic else "  # check"


def _written(text: str) -> str:
    """A text as a YAML scalar on one line, quoted only where it must be."""
    written = yaml.safe_dump(text, default_flow_style=True, width=10_000).splitlines()[0]
    return (
        written if not set(text) & set(",[]{}") else yaml.safe_dump(text, default_style="'").strip()
    )
