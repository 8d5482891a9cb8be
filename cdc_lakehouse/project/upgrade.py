"""What a new version changes in a project's files: a three-way merge with what was generated last.

`.lakehouse/generated.json` of a project records the version, the answers and every generated text.
A file that its owner has not changed becomes the new one; one that both changed is merged by
`git merge-file`. Files that its owner deleted stay deleted.
"""

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

from cdc_lakehouse.project.rendering import ProjectAnswers, is_example
from lakehouse.errors import ConfigurationError

RECORD = Path(".lakehouse", "generated.json")
_MARK = "<<<<<<< yours"
Effect = Literal["added", "updated", "merged", "conflict", "removed", "kept"]


class FileChange(NamedTuple):
    """What an upgrade does with one file.

    `before` is its text now, None where there is none; `after` the text that it gets, None where
    it goes. A `kept` file differs from what a new version has, and stays as it is.
    """

    path: str
    effect: Effect
    before: str | None
    after: str | None


class ProjectRecord(NamedTuple):
    """The answers that a project was made with, and every generated text by its path."""

    answers: ProjectAnswers
    files: Mapping[str, str]


def read_record(folder: Path) -> ProjectRecord:
    """What a project records of its generated files.

    Raises:
        ConfigurationError: the folder has no such record, or one that cannot be read.
    """
    file = folder / RECORD
    try:
        document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return ProjectRecord(ProjectAnswers(**document["answers"]), document["files"])
    except FileNotFoundError:
        action = "go to the project's folder, or make one: `lakehouse init --bundle`"
        expected = "a project made by `lakehouse init --bundle`"
        raise ConfigurationError(str(file), "(file)", "no such file", expected, action) from None
    except (ValueError, TypeError, KeyError) as failure:
        action = "take the file from your version control"
        expected = "the record that `lakehouse init --bundle` wrote"
        raise ConfigurationError(str(file), "(file)", str(failure), expected, action) from None


def write_record(folder: Path, record: ProjectRecord) -> None:
    """Records what was generated."""
    file = folder / RECORD
    file.parent.mkdir(parents=True, exist_ok=True)
    kept = {"answers": record.answers._asdict(), "files": dict(sorted(record.files.items()))}
    file.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def find_changes(folder: Path, base: Mapping[str, str], new: Mapping[str, str]) -> list[FileChange]:
    """What becomes of each file for which an upgrade has something to do or to say.

    The example's files are the user's from the first day: an upgrade leaves them alone.
    """
    paths = sorted(path for path in {*base, *new} if not is_example(path))
    mine = {path: (folder / path).read_text("utf-8") for path in paths if (folder / path).is_file()}
    changes = (_find_change(path, mine.get(path), base.get(path), new.get(path)) for path in paths)
    return [change for change in changes if change is not None]


def find_conflicts(folder: Path, paths: Iterable[str]) -> list[str]:
    """The files in which an earlier upgrade has left both sides of a conflict."""
    files = ((path, folder / path) for path in sorted(paths))
    return [path for path, file in files if file.is_file() and _MARK in file.read_text("utf-8")]


def apply_change(folder: Path, change: FileChange) -> None:
    """Writes or removes one file."""
    file = folder / change.path
    if change.after is None:
        file.unlink(missing_ok=True)
    elif change.after != change.before:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(change.after, encoding="utf-8")


def _find_change(
    path: str, mine: str | None, base: str | None, new: str | None
) -> FileChange | None:
    """The change of a file from its text now, the generated text of before, and the new one."""
    if new in (base, mine):
        return None
    if new is None and mine != base:
        return FileChange(path, "kept", mine, mine)
    if new is None:
        return FileChange(path, "removed", mine, None)
    if mine is None:
        return FileChange(path, "added", None, new) if base is None else None
    if mine == base:
        return FileChange(path, "updated", mine, new)
    return _merge_texts(path, mine, base, new)


def _merge_texts(path: str, mine: str, base: str | None, new: str) -> FileChange:
    """Both sides' changes; without git, or without a text that both began with, yours stays."""
    git = shutil.which("git")
    if git is None or base is None:
        return FileChange(path, "kept", mine, mine)
    with TemporaryDirectory() as scratch:
        names = ("yours", "generated", "new")
        for name, text in zip(names, (mine, base, new), strict=True):
            Path(scratch, name).write_text(text, encoding="utf-8")
        labels = [part for name in names for part in ("-L", name)]
        command = [git, "merge-file", "-p", *labels, *names]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    effect: Effect = "conflict" if done.returncode else "merged"
    return FileChange(path, effect, mine, done.stdout)
