"""`init`: a new project, and the first YAML of tables from a file or from a database."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cdc_lakehouse.cli.begin.bundle import (
    ByName,
    NewMode,
    Offline,
    Program,
    WheelFile,
    WheelVolume,
    make_bundle,
)
from cdc_lakehouse.cli.front import command
from cdc_lakehouse.cli.options import Chosen, same_lake
from cdc_lakehouse.cli.silence import list_guessed
from cdc_lakehouse.project.local_project import is_project, make_project
from cdc_lakehouse.terminal.console import show_progress, wrap_line
from lakehouse.config.loading import load_target
from lakehouse.config.unpacking import find_nearest
from lakehouse.errors import ConfigurationError, LakeNotWritable
from lakehouse.storage.landing import is_finished
from lakehouse.words import render_count

if TYPE_CHECKING:
    from cdc_lakehouse.drafts.first_draft import Draft
    from cdc_lakehouse.drafts.source_draft import ConnectorDraft, DatabaseTable

Name = Annotated[
    str | None,
    typer.Argument(metavar="TABLE|FOLDER", help="Only this table, or where --bundle goes."),
]
Samples = Annotated[
    list[Path] | None,
    typer.Option(
        "--from", metavar="FILE", help="A file or folder: JSON, CSV or Parquet; repeatable."
    ),
]
Source = Annotated[
    str | None, typer.Option(metavar="URL", help="A database (SQLAlchemy URL): its tables.")
]
Prefix = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="With --source: the connector's topic.prefix; default: the database."
    ),
]
Brokers = Annotated[
    str | None, typer.Option("--kafka", metavar="HOST:PORT", help="With --source: the brokers.")
]
CaptureOption = Annotated[
    bool, typer.Option("--capture", help="With --source: conf/capture.yml; no Kafka is needed.")
]

Bundle = Annotated[
    bool, typer.Option("--bundle", help="A whole project of your own, for Databricks as well.")
]
Catalog = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="With --bundle: catalogs NAME_dev and NAME_prod; default: the project's name.",
    ),
]


@command("init")
def init(
    chosen: Chosen,
    table: Name = None,
    sample: Samples = None,
    source: Source = None,
    prefix: Prefix = None,
    brokers: Brokers = None,
    capture: CaptureOption = False,
    bundle: Bundle = False,
    catalog: Catalog = None,
    mode: NewMode = None,
    wheel: WheelFile = None,
    offline: Offline = False,
    index: ByName = False,
    wheel_volume: WheelVolume = None,
) -> None:
    """Make a project, or write the YAML of tables from files or a database.

    Without options: the project's folders, in a folder that has none. With --bundle: a project in
    FOLDER, or here, with a Databricks bundle, workflows and a test. With --from: a table per
    topic of the files, and per kind of plain rows; daily extracts are recognised. With --source: a
    table per table of a PostgreSQL, MySQL or MariaDB database, and conf/connector.json for
    Debezium, or with --capture conf/capture.yml for `lakehouse capture`. More than three tables of
    one source share a file. Files that are there are left alone.
    """
    if bundle:
        folder = Path(table or chosen.conf.parent)
        with _report_unwritable(folder):
            return make_bundle(folder, catalog, mode, Program(wheel, offline, index, wheel_volume))
    _check_options(table, sample, source)
    _check_capture(capture, source, brokers)
    with _report_unwritable(chosen.conf):
        if not is_project(chosen.conf):
            for file in make_project(chosen.conf):
                print(f"made {_shorten_path(file)}")
        elif not sample and source is None:
            print(f"there is a project already: {_shorten_path(chosen.conf)}")
        if sample:
            _from_files(chosen, table, sample)
        elif source is not None:
            _from_database(chosen, table, source, DraftOptions(prefix, brokers, capture))
        else:
            more = same_lake(chosen)
            print(f"next: lakehouse init --from FILE{more}, or lakehouse init --source URL{more}")


@contextmanager
def _report_unwritable(conf: Path) -> Iterator[None]:
    """Within, an OSError becomes an error that names the place.

    Raises:
        LakeNotWritable: it has refused something.
    """
    try:
        yield
    except BrokenPipeError:  # whoever reads the output has gone
        raise
    except OSError as refused:
        place = _shorten_path(Path(refused.filename or conf))
        reason = refused.strerror or str(refused)
        raise LakeNotWritable(place, reason, "make it writable, or go to another folder") from None


def _check_options(table: str | None, sample: Sequence[Path] | None, source: str | None) -> None:
    if sample and source is not None:
        expected = "one of --from and --source"
        raise ConfigurationError("command line", "--source", "both", expected, "leave one out")
    if table is not None and not sample and source is None:
        expected, action = "--from FILE or --source URL", "say what the table is drafted from"
        raise ConfigurationError("command line", "TABLE", table, expected, action)


def _check_capture(capture: bool, source: str | None, brokers: str | None) -> None:
    if capture and (source is None or brokers is not None):
        problem = "--capture without --source" if source is None else "--capture and --kafka"
        action = "add --source URL" if source is None else "leave one out"
        raise ConfigurationError("command line", "--capture", problem, "--source alone", action)


class DraftOptions(NamedTuple):
    """The options of a connector: its topics' prefix, Kafka's brokers, or a capture without."""

    prefix: str | None
    brokers: str | None
    capture: bool


def _from_files(chosen: Chosen, table: str | None, given: Sequence[Path]) -> None:
    from cdc_lakehouse.drafts.first_draft import LandingPlace, write_draft, write_drafts
    from cdc_lakehouse.drafts.tables_in_files import find_table_folder

    landing = _find_landing(chosen)

    def place_of(file: Path) -> LandingPlace:
        folder = find_table_folder(file)
        inside = folder.is_relative_to(landing)
        name = str(folder.relative_to(landing)) if inside else folder.name
        name = file.name.partition(".")[0] if name in ("", ".") else name
        return LandingPlace(name, inside and folder != landing)

    files, others = _list_files(given)
    if table is not None:
        drafts = [write_draft(table, files, chosen.conf, place_of)]
    else:
        drafts = write_drafts(files, chosen.conf, place_of)
    more = same_lake(chosen)
    _print_drafts(drafts, more)
    if others:
        left_out = (
            f"left out by their endings (`run` reads any): {', '.join(_name_by_folder(others))}"
        )
        print("\n".join(wrap_line(f"{left_out}; do: rename them, such as to .csv")))
    if all(draft.is_there for draft in drafts):
        print("nothing was written: remove a file to have it drafted again, or choose a name:")
        print(f"    lakehouse init TABLE --from {given[0]}{more}")
        return
    _print_left_out(drafts, files if table is None else [])
    for draft in drafts:
        for into, names in _list_moves(draft, landing).items():
            are_one = len(names) > 1 and draft.sample and draft.sample.format == "snapshot"
            hint = "; files of one day are one snapshot: of two, only the newer" if are_one else ""
            print("\n".join(wrap_line(f"next: put {', '.join(names)} into {into}{hint}")))
    print(f"next: lakehouse validate{more}, then lakehouse run{more}")


def _list_files(given: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The files that are given and those of known endings below given folders; and the others.

    Raises:
        ConfigurationError: a folder has none.
    """
    from cdc_lakehouse.drafts.sample_files import ENDINGS, find_ending

    files: list[Path] = []
    others: list[Path] = []
    for place in given:
        if not place.is_dir():
            files.append(place)
            continue
        finished = [f for f in sorted(place.rglob("*")) if _is_sample(f, place)]
        below = [file for file in finished if find_ending(file)]
        others += [file for file in finished if not find_ending(file)]
        if not below:
            problem, expected = "none", f"a folder with {', '.join(ENDINGS)}"
            action = "name a folder that has some, such as landing"
            if finished:
                problem, action = ", ".join(_name_by_folder(finished)), f"rename them, or {action}"
            raise ConfigurationError("command line", f"--from {place}", problem, expected, action)
        files += below
    return files, others


def _is_sample(file: Path, place: Path) -> bool:
    """Whether a file below a folder may hold changes; the project's own files do not."""
    parts = file.relative_to(place).parts
    is_kept = file.is_file() and is_finished(file.name) and parts[0] not in ("conf", "lake")
    return is_kept and not any(part.startswith((".", "_")) for part in parts)


def _name_by_folder(files: Sequence[Path]) -> list[str]:
    """The first file of each table's folder, and how many more there are."""
    from cdc_lakehouse.drafts.tables_in_files import find_table_folder

    by_folder: dict[Path, list[Path]] = {}
    for file in files:
        by_folder.setdefault(find_table_folder(file), []).append(file)
    return [
        f"{_shorten_path(first)}{f' and {len(more)} more there' if more else ''}"
        for first, *more in by_folder.values()
    ]


def _print_left_out(drafts: "Sequence[Draft]", files: Sequence[Path]) -> None:
    """Names the files in which no table was found."""
    used = {file for draft in drafts if draft.sample is not None for file in draft.sample.files}
    if unused := [_shorten_path(file) for file in files if file not in used]:
        print("\n".join(wrap_line(f"left out, as no record of a table: {', '.join(unused)}")))


def _list_moves(draft: "Draft", landing: Path) -> dict[str, list[str]]:
    """Where a new table reads its files, and which files a person has to put there."""
    from cdc_lakehouse.drafts.column_folders import find_own_folder
    from cdc_lakehouse.drafts.flat_rows import day_of_name, is_day_folder

    sample, place = draft.sample, draft.place
    if draft.is_there or sample is None or place is None:
        return {}
    moves: dict[str, list[str]] = {}
    for file in sample.files:
        inside, hint = find_own_folder(file), ""
        columns = file.absolute().parent.relative_to(inside)
        day = inside.name if is_day_folder(inside) else ""
        if sample.format == "snapshot" and not day:
            day = day_of_name(file.name) or day_of_name(str(columns)) or "YYYY-MM-DD"
            hint = ", the day that it shows" if day == "YYYY-MM-DD" else ""
        elif place.is_sure:
            continue
        into = f"{_shorten_path(landing / place.folder / day / columns)}{hint}"
        moves.setdefault(into, []).append(file.name)
    return moves


def _from_database(chosen: Chosen, table: str | None, source: str, options: DraftOptions) -> None:
    from cdc_lakehouse.drafts import source_draft as drafts
    from cdc_lakehouse.drafts.tables_in_files import to_identifier
    from gold.source_check.database import check_url

    given = check_url(source)
    with show_progress("reading the catalog of the database"):
        url, listed = drafts.read_tables(given)
    prefix = options.prefix or to_identifier(url.database or "source")
    connector = drafts.ConnectorDraft(url, prefix, options.brokers, options.capture)
    wanted = _select_table(table, drafts.name_tables(listed))
    more, folder = same_lake(chosen), chosen.conf / "tables"
    _print_drafts([*drafts.write_source_drafts(folder, wanted, connector)], more)
    for note in drafts.describe_partitioned(wanted):
        print(note)
    of_source = list(wanted.values())
    if options.capture:
        _write_capture(chosen, drafts.render_capture(source, of_source, prefix, table is None))
        print(f"next: lakehouse capture{more}, and beside it lakehouse run --continuous{more};")
        print(f"    or both in one: lakehouse run --continuous --capture{more}")
        return
    _write_connector(chosen, of_source, connector)
    print(f"next: start the connector, then lakehouse validate{more},", end=" ")
    print(f"lakehouse run --continuous{more}")


def _write_capture(chosen: Chosen, text: str) -> None:
    """Writes conf/capture.yml, and says what the database still lacks."""
    import yaml

    from cdc_lakehouse.capture.database import open_database
    from cdc_lakehouse.capture.settings import CaptureSettings
    from cdc_lakehouse.terminal.console import wrap_line
    from lakehouse.config.unpacking import unpack_model

    file = chosen.conf / "capture.yml"
    settings = unpack_model(CaptureSettings, yaml.safe_load(text), str(file))
    if file.exists():
        print(f"{_shorten_path(file)} is there already and was left alone")
    else:
        file.touch(mode=0o600)
        file.write_text(text, encoding="utf-8")
        print(f"wrote {_shorten_path(file)}")
        if settings.url.password and not str(settings.url.password).startswith("env:"):
            print("    it holds the password: write env:NAME in its place, and set that variable")
    for lack in open_database(settings).find_lacks():
        print("\n".join(wrap_line(f"the database lacks: {lack.problem}; do: {lack.do}")))


def _write_connector(
    chosen: Chosen, tables: "list[DatabaseTable]", connector: "ConnectorDraft"
) -> None:
    """Writes conf/connector.json, and says what the database needs."""
    from cdc_lakehouse.drafts import source_draft as drafts
    from cdc_lakehouse.terminal.console import wrap_line

    file = chosen.conf / "connector.json"
    if not file.exists():
        file.write_text(drafts.render_connector(tables, connector), encoding="utf-8")
        print(f"wrote {_shorten_path(file)}, for Debezium in Kafka Connect")
        print("the worker needs: config.providers=env, and the variable DATABASE_PASSWORD")
    for line in drafts.list_preparations(tables, connector.url):
        print("\n".join(wrap_line(f"the database needs: {line}")))
    if connector.brokers is None:
        folder = _shorten_path(_find_landing(chosen) / connector.prefix)
        print(f"the tables read files in {folder};")
        print("    to read them from Kafka, draft them with --kafka HOST:PORT")


def _select_table(
    table: str | None, tables: "dict[str, DatabaseTable]"
) -> "dict[str, DatabaseTable]":
    """The table of this name alone, or all without a name.

    Raises:
        ConfigurationError: the database has no such table.
    """
    if table is None:
        return tables
    if table not in tables:
        meant = find_nearest(table, tables)
        action = f"did you mean {meant}?" if meant else "name one of them, or none for all"
        expected = f"one of {', '.join(tables)}"
        raise ConfigurationError("command line", "TABLE", table, expected, action)
    return {table: tables[table]}


def _find_landing(chosen: Chosen) -> Path:
    """The landing root of the target; where there is no target, that of a new project."""
    return Path(load_target(chosen.conf, chosen.target, chosen.root, chosen.setting).landing)


def _print_drafts(drafts: "Sequence[Draft]", more: str) -> None:
    """Says which files were written, and what of them `run` waits for."""
    new = [draft for draft in drafts if not draft.is_there]
    guessed = [draft.file.stem for draft in new if list_guessed(draft.text.splitlines())]
    for draft in drafts:
        if draft.is_there:
            print(f"{_shorten_path(draft.file)} is there already and was left alone")
            continue
        lines = render_count(draft.check_count, "line")
        checks = f"; look at {lines} with 'check'" if draft.check_count else ""
        print(f"wrote {_shorten_path(draft.file)}{checks}")
    if guessed:
        name = guessed[0] if len(guessed) == 1 else "TABLE"
        until = f"until its lines are confirmed: `lakehouse validate --accept {name}{more}`"
        print("\n".join(wrap_line(f"`run` refuses {', '.join(guessed)} {until}")))


def _shorten_path(file: Path) -> str:
    """The path; relative to the working folder where it lies below it."""
    absolute, here = file.absolute(), Path.cwd()
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)
