"""`init --bundle` and `upgrade`: a project of one's own with its Databricks bundle."""

import difflib
import re
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from cdc_lakehouse.cli.front import command
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.project.rendering import MODES, Mode, ProjectAnswers, is_example, render_project
from cdc_lakehouse.project.upgrade import (
    RECORD,
    FileChange,
    ProjectRecord,
    apply_change,
    find_changes,
    find_conflicts,
    read_record,
    write_record,
)
from lakehouse.config.table import IDENTIFIER
from lakehouse.errors import ConfigurationError, UpgradeConflict
from lakehouse.words import render_count

NewMode = Annotated[
    Mode | None, typer.Option("--mode", help="What keeps the tables up to date, on Databricks.")
]
WheelVolume = Annotated[
    str | None,
    typer.Option(metavar="/Volumes/…", help="Where the wheels lie, if no index is reached."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
PACKAGE = "cdc-lakehouse"


def make_bundle(
    folder: Path, catalog: str | None, mode: Mode | None, wheel_volume: str | None
) -> None:
    """Writes a project; files that are there are left alone, and so is a whole project.

    Its catalogs have its name, unless another is given: a project has a catalog for itself.

    Raises:
        ConfigurationError: the folder's name, the catalog or the volume cannot be used.
    """
    if (folder / RECORD).exists():
        print(f"there is a project already: {folder}; lakehouse upgrade --dry-run compares it")
        return
    name = re.sub(r"\W+", "_", folder.absolute().name).strip("_")
    volume, catalog = _check_volume(wheel_volume), catalog or name
    answers = ProjectAnswers(name, version(PACKAGE), catalog, mode or MODES[0], volume)
    for option, text in (("FOLDER", name), ("--catalog", catalog)):
        if not re.fullmatch(IDENTIFIER, text):
            expected, action = "a letter, then letters, digits and _", "choose another name"
            raise ConfigurationError("command line", option, text, expected, action)
    texts = render_project(answers)
    has_tables = any((folder / "conf" / "tables").glob("*.y*ml"))
    wanted = [path for path in texts if not (has_tables and is_example(path))]
    there = sorted(path for path in wanted if (folder / path).exists())
    for path in {*wanted} - {*there}:
        apply_change(folder, FileChange(path, "added", None, texts[path]))
    write_record(folder, ProjectRecord(answers, texts))
    print(f"made {render_count(len(wanted) - len(there), 'file')} in {folder}")
    for path in there:
        print(f"{folder / path} is there already and was left alone")
    print(f"catalogs: {catalog}_dev and {catalog}_prod, for this project alone")
    print("next: read README.md; lakehouse validate; pytest tests")


@command("upgrade")
def upgrade(
    chosen: Chosen, dry_run: DryRun = False, mode: NewMode = None, wheel_volume: WheelVolume = None
) -> None:
    """Update the files of `init --bundle`; your changes stay.

    Where a change of yours and one of this version meet, the file has both, between <<<<<<< and
    >>>>>>>, and the exit code is 1 until you have chosen. With --mode or --wheel-volume: as if the
    project had been made with them.
    """
    folder = chosen.conf.absolute().parent
    record = read_record(folder)
    answers = record.answers._replace(version=version(PACKAGE), mode=mode or record.answers.mode)
    if wheel_volume is not None:
        answers = answers._replace(wheel_volume=_check_volume(wheel_volume))
    texts = render_project(answers)
    if unsettled := find_conflicts(folder, texts):
        raise UpgradeConflict(unsettled)
    changes = find_changes(folder, record.files, texts)
    for change in changes:
        print(f"{change.effect:<8} {change.path}")
        if dry_run:
            print(_render_diff(change), end="")
        else:
            apply_change(folder, change)
    if not dry_run:
        write_record(folder, ProjectRecord(answers, texts))
    before, now = record.answers.version, answers.version
    if not changes:
        print(f"nothing to change: {now}")
    else:
        print(f"{render_count(len(changes), 'file')}, {before} to {now}" + (", not done" * dry_run))
    for change in changes:
        if change.effect == "kept":
            print(f"{change.path} differs from this version's and was left as it is")
    conflicts = [change.path for change in changes if change.effect == "conflict"]
    if conflicts:
        raise UpgradeConflict(conflicts)


def _render_diff(change: FileChange) -> str:
    before = (change.before or "").splitlines(keepends=True)
    after = (change.after or "").splitlines(keepends=True)
    return "".join(difflib.unified_diff(before, after, change.path, change.path))


def _check_volume(given: str | None) -> str:
    """The folder of the wheels without a slash at its end.

    Raises:
        ConfigurationError: it is no folder in a volume.
    """
    folder = (given or "").rstrip("/")
    if folder and not re.fullmatch(r"/Volumes(/[^/]+){3,}", folder):
        expected = "/Volumes/CATALOG/SCHEMA/VOLUME"
        raise ConfigurationError("command line", "--wheel-volume", folder, expected, "correct it")
    return folder
