"""`init --bundle` and `upgrade`: a project of one's own with its Databricks bundle."""

import difflib
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, NamedTuple

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
from cdc_lakehouse.project.wheels import FOLDER, PACKAGE, download_needed, put_wheel
from cdc_lakehouse.terminal.console import show_progress, wrap_line
from lakehouse.config.table import IDENTIFIER
from lakehouse.errors import ConfigurationError, UpgradeConflict
from lakehouse.words import render_count

NewMode = Annotated[
    Mode | None, typer.Option("--mode", help="What keeps the tables up to date, on Databricks.")
]
WheelFile = Annotated[
    Path | None,
    typer.Option(
        "--wheel", metavar="FILE", help="The wheel that the jobs install; default: this program's."
    ),
]
Offline = Annotated[
    bool, typer.Option("--offline", help="Put what the jobs need beside the wheel: no index.")
]
ByName = Annotated[
    bool, typer.Option("--index", help="The jobs install this program by its name from an index.")
]
WheelVolume = Annotated[
    str | None,
    typer.Option(metavar="/Volumes/…", help="Where the wheels lie, if no index is reached."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
LISTS = "environments/"


class Program(NamedTuple):
    """Where the jobs of a project have the program from; without any: a wheel of what runs here.

    Attributes:
        wheel: another wheel.
        offline: whether what the jobs need lies beside the wheel.
        by_name: from an index, by its name.
        volume: a folder of wheels in a volume.
    """

    wheel: Path | None = None
    offline: bool = False
    by_name: bool = False
    volume: str | None = None

    def check(self) -> None:
        """Checks that no option contradicts another.

        Raises:
            ConfigurationError: two do.
        """
        others = {"--index": self.by_name, "--wheel-volume": self.volume}
        for option in (option for option, given in others.items() if given):
            if self.wheel is not None or self.offline or all(others.values()):
                expected = "one of --wheel or --offline, --index and --wheel-volume"
                raise ConfigurationError("command line", option, "several", expected, "name one")

    def settle(self, folder: Path, answers: ProjectAnswers) -> ProjectAnswers:
        """The answers with this; puts the wheel into the project where that is wanted."""
        by_name = answers._replace(wheel="", offline="", wheel_volume=_check_volume(self.volume))
        if self.by_name or self.volume:
            return by_name
        offline = "yes" if self.offline else answers.offline
        return by_name._replace(wheel=put_wheel(folder, self.wheel), offline=offline)


def _put_needed(folder: Path, answers: ProjectAnswers, texts: Mapping[str, str]) -> None:
    """Puts what the jobs need beside the wheel, where they reach no index."""
    if answers.offline:
        with show_progress("downloading what the jobs need"):
            download_needed(folder, [text for path, text in texts.items() if LISTS in path])


def make_bundle(folder: Path, catalog: str | None, mode: Mode | None, program: Program) -> None:
    """Writes a project; files that are there are left alone, and so is a whole project.

    Its catalogs have its name, unless another is given: a project has a catalog for itself.

    Raises:
        ConfigurationError: the folder's name, the catalog, a wheel or a volume cannot be used.
    """
    if (folder / RECORD).exists():
        _tell(f"there is a project already: {folder}; `lakehouse upgrade --dry-run` compares it")
        return
    name = re.sub(r"\W+", "_", folder.absolute().name).strip("_")
    catalog = catalog or name
    program.check()
    for option, text in (("FOLDER", name), ("--catalog", catalog)):
        if not re.fullmatch(IDENTIFIER, text):
            expected, action = "a letter, then letters, digits and _", "choose another name"
            raise ConfigurationError("command line", option, text, expected, action)
    made = ProjectAnswers(name, version(PACKAGE), catalog, mode or MODES[0])
    answers = program.settle(folder, made)
    texts = render_project(answers)
    _put_needed(folder, answers, texts)
    has_tables = any((folder / "conf" / "tables").glob("*.y*ml"))
    wanted = [path for path in texts if not (has_tables and is_example(path))]
    there = sorted(path for path in wanted if (folder / path).exists())
    for path in {*wanted} - {*there}:
        apply_change(folder, FileChange(path, "added", None, texts[path]))
    write_record(folder, ProjectRecord(answers, texts))
    _tell(f"made {render_count(len(wanted) - len(there), 'file')} in {folder}")
    for path in there:
        _tell(f"{folder / path} is there already and was left alone")
    if answers.wheel:
        print(f"the jobs install {FOLDER}/{answers.wheel}, which is put there")
    _tell(f"catalogs: {catalog}_dev and {catalog}_prod, for this project alone")
    print("next: read README.md; lakehouse validate; pytest tests")


def _tell(line: str) -> None:
    print("\n".join(wrap_line(line)))


@command("upgrade")
def upgrade(
    chosen: Chosen,
    dry_run: DryRun = False,
    mode: NewMode = None,
    wheel: WheelFile = None,
    offline: Offline = False,
    index: ByName = False,
    wheel_volume: WheelVolume = None,
) -> None:
    """Update the files of `init --bundle`; your changes stay.

    Where a change of yours and one of this version meet, the file has both, between <<<<<<< and
    >>>>>>>, and the exit code is 1 until you have chosen. Other options: as if the project had been
    made with them.
    """
    folder = chosen.conf.absolute().parent
    record = read_record(folder)
    answers = record.answers._replace(version=version(PACKAGE), mode=mode or record.answers.mode)
    program = Program(wheel, offline, index, wheel_volume)
    program.check()
    if any(program) or answers.wheel:
        answers = _settle_upgrade(folder, answers, program, dry_run)
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
        _put_needed(folder, answers, texts)
        write_record(folder, ProjectRecord(answers, texts))
    before, now = record.answers.version, answers.version
    if not changes:
        print(f"nothing to change: {now}")
    else:
        print(f"{render_count(len(changes), 'file')}, {before} to {now}" + (", not done" * dry_run))
    for change in changes:
        if change.effect == "kept":
            _tell(f"{change.path} differs from this version's and was left as it is")
    conflicts = [change.path for change in changes if change.effect == "conflict"]
    if conflicts:
        raise UpgradeConflict(conflicts)


def _settle_upgrade(
    folder: Path, answers: ProjectAnswers, program: Program, dry_run: bool
) -> ProjectAnswers:
    """The answers with the wheel of this version; a dry run puts it into no project."""
    if not dry_run:
        return program.settle(folder, answers)
    with TemporaryDirectory() as scratch:
        return program.settle(Path(scratch), answers)


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
