"""A table's first YAML, written from a sample of its events for a person to check."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from cdc_lakehouse.drafts.sample import read_sample, read_samples
from cdc_lakehouse.drafts.sample_files import Sample
from cdc_lakehouse.drafts.tables_in_files import FolderOf, to_identifier
from lakehouse.config.records.many_tables import ManyTables
from lakehouse.config.records.presets import PRESETS
from lakehouse.config.unpacking import unpack_table
from lakehouse.errors import ConfigurationError

DOUBT = "  # check: folder of the files, below the landing root"
MODE_NOTE = "rows that the files of a day lack are deleted; else delta, or format rows"
ORDER_NOTE, TYPES_NOTE = ": orders a key's changes", "  # check: types and digits by the values"
ZEROS_NOTE = "; numbers lose leading zeros"
FLAT = ("rows", "bigquery", "snapshot", *PRESETS)
SCHEMA_LINE = "# yaml-language-server: $schema=../table.schema.json"
MOST_ALONE = 3
"""Up to this many tables of a source get a file each; more share one."""
MANY_LINES = (
    "# One table for each topic that matches; types and keys come with the records. What one of",
    "# them says in a file of its own, such as conf/tables/orders.yml, takes precedence.",
)


class LandingPlace(NamedTuple):
    """The folder below the landing root for a table's files; it is sure if they are there now."""

    folder: str
    is_sure: bool


class Draft(NamedTuple):
    """A table's YAML: its file, its text, and whether the file was there and is left alone.

    A draft from files also has their sample, and the folder for them.
    """

    file: Path
    text: str
    is_there: bool
    sample: Sample | None = None
    place: LandingPlace | None = None

    @property
    def check_count(self) -> int:
        """How many lines a person has to check."""
        return self.text.count("# check")


def write_draft(
    table: str, files: Sequence[Path], conf: Path, place_of: Callable[[Path], LandingPlace]
) -> Draft:
    """Write conf/tables/TABLE.yml; `place_of` a file is where its table's files lie.

    Raises:
        ConfigurationError: the file is there, or the sample cannot be used.
    """
    file = conf / "tables" / f"{table}.yml"
    if file.exists():
        problem, action = "a file that is there", "remove it first, or choose another name"
        raise ConfigurationError(str(file), "table", problem, "a new table", action)
    sample = read_sample(files, table, _build_folder_lookup(place_of))
    return _write_sample(file, sample, place_of(files[0]))


def write_drafts(
    files: Sequence[Path], conf: Path, place_of: Callable[[Path], LandingPlace]
) -> list[Draft]:
    """Write a YAML per table in the files; those that are there are left alone.

    Tables of plain rows that would share a folder get a folder each, which has to be made.

    Raises:
        ConfigurationError: the files cannot be used.
    """
    samples = read_samples(files, _build_folder_lookup(place_of))
    flat = [place_of(s.files[0]).folder for s in samples.values() if s.format in FLAT]
    together: dict[tuple[str, LandingPlace], dict[str, Sample]] = {}
    written = []
    for name, sample in samples.items():
        place = place_of(sample.files[0])
        if sample.topic is not None and sample.file_format == "json" and not sample.where:
            together.setdefault((sample.format, place), {})[name] = sample
            continue
        if sample.format in FLAT and not sample.where and flat.count(place.folder) > 1:
            place = LandingPlace(f"{place.folder}/{name}", is_sure=False)
        written.append(_write_sample(conf / "tables" / f"{name}.yml", sample, place))
    for (_, place), some in together.items():
        written += _write_together(conf, some, place)
    return written


def _write_together(
    conf: Path, samples: Mapping[str, Sample], place: LandingPlace
) -> Iterator[Draft]:
    """Writes tables of one folder: each its own file, or more than three one for all."""
    by_topic = {sample.topic or "": sample for sample in samples.values()}
    if len(samples) <= MOST_ALONE:
        for name, sample in samples.items():
            yield _write_sample(conf / "tables" / f"{name}.yml", sample, place)
        return
    many, first = join_topics(by_topic), next(iter(samples.values()))
    files = [*dict.fromkeys(file for sample in samples.values() for file in sample.files)]
    doubt = "" if place.is_sure else DOUBT
    source = [f"  format: {first.format}", f"  path: {to_scalar(place.folder)}{doubt}"]
    notes = dict.fromkeys(s.notes["source"] for s in samples.values() if "source" in s.notes)
    source += [f"  # check: {note}" for note in notes]
    names = {many.name_table(topic): sample for topic, sample in by_topic.items()}
    shared = write_many(name_file(conf / "tables", place.folder, names), many, source)
    yield shared._replace(sample=first._replace(files=files), place=place)
    for name, sample in names.items():
        is_mixed = sample.guessed and sample.columns.keys() - set(sample.keys)
        if not sample.keys or sample.looks or is_mixed:
            text = _render_draft(name, sample, place)
            yield write_text(conf / "tables" / f"{name}.yml", *split_source(text))


def name_file(folder: Path, source: str, names: Collection[str]) -> Path:
    """The file of many tables, named after their source unless one of the tables is."""
    name = to_identifier(source.rpartition("/")[2])
    return folder / f"{name}{'_tables' if name in names else ''}.yml"


def join_topics(topics: Collection[str]) -> ManyTables:
    """What a file of many tables says of these topics, so that each has a name of its own."""
    patterns = sorted({f"{topic.rpartition('.')[0]}.*".removeprefix(".") for topic in topics})
    many = ManyTables.model_validate({"tables": patterns})
    if len(set(map(many.name_table, topics))) < len(topics):
        return many.model_copy(update={"name": "{schema}_{table}"})
    return many


def write_many(file: Path, many: ManyTables, source: Sequence[str]) -> Draft:
    """Write the YAML of many tables; a file that is there is left alone."""
    lines = [*MANY_LINES, f"tables: [{', '.join(map(json.dumps, many.tables))}]"]
    lines += [f"name: '{many.name}'"] if "name" in many.model_dump(exclude_defaults=True) else []
    text = "\n".join([*lines, "source:", *source]) + "\n"
    return write_text(file, text, {"table": "t", "keys": ["id"]})


def _build_folder_lookup(place_of: Callable[[Path], LandingPlace]) -> FolderOf:
    """A function for the name of the landing folder in which a file lies already."""

    def folder_of(file: Path) -> str | None:
        place = place_of(file)
        return place.folder.rpartition("/")[2] if place.is_sure else None

    return folder_of


def _write_sample(file: Path, sample: Sample, place: LandingPlace) -> Draft:
    drafted = write_text(file, _render_draft(file.stem, sample, place))
    return drafted._replace(sample=sample, place=place)


def split_source(text: str) -> tuple[str, dict[str, Any]]:
    """A table's YAML without its source, and the rest: for one table of many in a file."""
    kept, inside = [], False
    for line in text.splitlines():
        inside = line == "source:" or (inside and line.startswith(" "))
        if not inside and line != SCHEMA_LINE:
            kept.append(line)
    return "\n".join(kept) + "\n", {"source": yaml.safe_load(text)["source"]}


def write_text(file: Path, text: str, more: Mapping[str, Any] | None = None) -> Draft:
    """Write a table's YAML, which with `more` must be valid; a file that is there is left alone.

    Only `sequence_by` may be missing: `validate` asks for it.
    """
    document = (dict(more) if more else {}) | yaml.safe_load(text)
    if "tables" in document:
        document = {k: v for k, v in document.items() if k not in ("tables", "name")}
        kafka = document["source"].get("kafka")
        document["source"] |= {"kafka": kafka | {"topic": "t"}} if kafka else {"topic": "t"}
    if document["source"]["format"] in ("rows", *PRESETS):
        document.setdefault("sequence_by", "order")
    unpack_table(document, str(file))
    is_there = file.exists()
    if not is_there:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return Draft(file, text, is_there)


def _render_draft(table: str, sample: Sample, place: LandingPlace) -> str:
    """The YAML's text; what was guessed carries a comment that begins with `check`."""
    doubt = "" if place.is_sure else DOUBT
    sign, notes = sample.deletes, {name: f": {note}" for name, note in sample.notes.items()}
    order = notes.get("sequence_by", "")
    asked = [(n[8:], note) for n, note in sample.notes.items() if n.startswith("deletes.")]
    is_left_out = sign is not None and sign.is_operation and not sign.column.startswith("_")
    csv = ", ".join(f"{name}: {text}" for name, text in sample.csv.items())
    is_ordered = sample.sequence_by or PRESETS.get(sample.format, {}).get("sequence_by")
    needs_order = sample.format in ("rows", *PRESETS) and not is_ordered
    lines = {
        f"table: {table}\nsource:\n  format: {sample.format}": True,
        f"  path: {to_scalar(place.folder)}{doubt}": True,
        f"  topic: {to_scalar(sample.topic or '')}": sample.topic and not sample.where,
        f"  where: {to_scalar(sample.where)}": sample.where,
        f"  # check{notes.get('source', '')}": "source" in notes,
        f"  mode: full  # check: {MODE_NOTE}": sample.format == "snapshot",
        f"  file_format: {sample.file_format}": sample.file_format != "json",
        f"  csv: {{{csv}}}  # check{notes.get('csv', '')}": sample.csv,
        f"  # {notes.get('header', '')[2:]}": "header" in notes,
        f"keys: [{', '.join(map(to_scalar, sample.keys))}]{_render_doubt(sample)}": True,
        f"sequence_by: {to_scalar(sample.sequence_by or '')}"
        f"  # check{order or ORDER_NOTE}": sample.sequence_by,
        f"# sequence_by:  # check: name the column that orders a key's changes{order}": needs_order,
        f"apply_as_deletes: {to_scalar(sign.condition if sign else '')}"
        f"  # check: {sign.note if sign else ''}": sign,
        f"apply_as_upserts: {to_scalar(sign.upserts if sign else '')}"
        "  # any other row is a dead letter": sign and sign.upserts,
        **{
            f"# apply_as_deletes:  # check: {to_scalar(name)} {note}; such rows stay": True
            for name, note in asked
        },
        f"except_column_list: [{to_scalar(sign.column if sign else '')}]": is_left_out,
    }
    written = [line for line, is_wanted in lines.items() if is_wanted]
    return "\n".join([SCHEMA_LINE, *written, *_list_columns(sample)]) + "\n"


def _list_columns(sample: Sample) -> list[str]:
    """Declared columns, and as comments those that are only guessed."""
    possible = possible_columns([*sample.keys, *sample.columns, *sample.guessed])
    declared = [
        f"  {to_scalar(name)}: {kind}{_note_column(sample, name)}"
        for name, kind in sample.columns.items()
        if name in possible
    ]
    guessed = [
        f"  # {to_scalar(name)}: {_render_guess(sample, name, kind)}"
        for name, kind in sample.guessed.items()
        if name in possible
    ]
    hint = "  # check: seen, but not declared; declare decimals, dates and times"
    are_guessed = sample.format in FLAT and sample.file_format != "parquet"
    zeros = ZEROS_NOTE if sample.file_format == "csv" else ""
    head = f"columns:{TYPES_NOTE if are_guessed else ''}{zeros}"
    return [*([head, *declared] if declared else []), *([hint, *guessed] if guessed else [])]


def _note_column(sample: Sample, name: str) -> str:
    """The comment behind a declared column."""
    note = sample.notes.get(f"columns.{name}")
    return f"  # check: {note}" if note else ""


def possible_columns(names: Iterable[str]) -> set[str]:
    """The names that one table can have: of two that differ in case only, the first."""
    first: dict[str, str] = {}
    for name in names:
        if name.strip() and not name.startswith("_"):
            first.setdefault(name.lower(), name)
    return set(first.values())


def to_scalar(text: str) -> str:
    """A text as a YAML scalar on one line, quoted only where it must be."""
    is_quoted = not text.isprintable() or not {*text}.isdisjoint(",[]{}`")
    style = None if not is_quoted else '"' if "'" in text or not text.isprintable() else "'"
    dumped = yaml.safe_dump(text, default_style=style, width=10_000, allow_unicode=True)
    return dumped.splitlines()[0]


def _render_guess(sample: Sample, name: str, kind: str) -> str:
    """A guessed column's type, or the one to declare with what its values look like."""
    looks, declared = sample.looks.get(name, ("", kind))
    return f"{declared}  # check: looks like {looks}" if looks else kind


def _render_doubt(sample: Sample) -> str:
    if sample.format == "ydb":
        return "  # check: records do not name their key columns, give them in order"
    if sample.format == "debezium" and not sample.keys:
        return "  # check: the records name no key; a table without one keeps equal rows"
    if note := sample.notes.get("keys"):
        return f"  # check: {note}"
    return "" if sample.format == "debezium" and sample.topic else "  # check"
