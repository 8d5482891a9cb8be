"""A folder that stands for a Databricks workspace: its catalogs with volumes, its files, one lake.

`Volumes/CATALOG` is there from the beginning for each catalog. Schemas and volumes are folders in
it, and only a deploy makes them.
"""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from tests.bundle.lint.reading import Bundle, resolved

DBFS = "dbfs:"
VOLUMES = PurePosixPath("/Volumes")
DEPTH = len(("/", "Volumes", "catalog", "schema", "volume"))


class Refused(Exception):
    """What the command line prints after `Error: ` before it ends with exit code 1."""


class Workspace(NamedTuple):
    """The folder, and the e-mail address of the user who is signed in."""

    folder: Path
    user: str

    @property
    def short_name(self) -> str:
        """The user's name within names of schemas, as Databricks' CLI makes it."""
        return re.sub(r"[^a-z0-9]+", "_", self.user.partition("@")[0].lower()).strip("_")

    @property
    def files(self) -> Path:
        """What a deploy uploads from the bundle's folder; `${workspace.file_path}`."""
        return self.folder / "files"

    @property
    def programs(self) -> Path:
        """The programs of the environment with the deployed wheel."""
        return self.folder / "environment" / "bin"

    def lake(self, catalog: str) -> Path:
        """The root of the lake whose tables stand for those of a catalog."""
        return self.folder / "catalogs" / catalog

    def at(self, path: str) -> Path:
        """Where a path of the workspace lies: `/Volumes/CATALOG/SCHEMA/VOLUME/…`.

        Raises:
            Refused: no deploy made this volume, or the path is in none.
        """
        there = PurePosixPath(path)
        parts = there.parts
        if VOLUMES not in there.parents or len(parts) < DEPTH:
            raise Refused(f"not a path within a volume: {path}")
        if not self._below(PurePosixPath(*parts[:DEPTH])).is_dir():
            raise Refused(f"no such directory: {path}")
        return self._below(there)

    def has_schema(self, catalog: str, schema: str) -> bool:
        """Whether a deploy made the schema."""
        return self._below(VOLUMES / catalog / schema).is_dir()

    def check_catalogs(self, bundle: Bundle) -> None:
        """Whether the catalogs are there: no deploy makes one.

        Raises:
            Refused: one is not there.
        """
        for kind in ("schemas", "volumes"):
            for declared in bundle.resources[kind].values():
                catalog = resolved(declared["catalog_name"], bundle.known)
                if not self._below(VOLUMES / catalog).is_dir():
                    raise Refused(f"Catalog '{catalog}' does not exist.")

    def make_schemas(self, bundle: Bundle) -> None:
        """Make the bundle's schemas and volumes; those that are there keep their files."""
        for kind in ("schemas", "volumes"):
            for key, declared in bundle.resources[kind].items():
                catalog = resolved(declared["catalog_name"], bundle.known)
                within = resolved(declared.get("schema_name", ""), bundle.known)
                name = bundle.known[f"resources.{kind}.{key}.name"]
                self._below(VOLUMES / catalog / within / name).mkdir(exist_ok=True)

    def upload(self, bundle: Bundle, folder: Path) -> None:
        """Copy what `sync.paths` names; what is gone from the folder goes from the workspace."""
        shutil.rmtree(self.files, ignore_errors=True)
        for path in bundle.settings["sync"]["paths"]:
            shutil.copytree(folder / path, self.files / path)

    def remember(self, bundle: Bundle) -> None:
        """Keep a deployed bundle: its jobs run as they were deployed."""
        kept = {"target": bundle.target, "resources": bundle.resources, "known": bundle.known}
        self._deployed.write_text(json.dumps(kept))

    def deployed(self) -> Bundle:
        """The bundle as it was deployed last.

        Raises:
            Refused: none was.
        """
        if not self._deployed.is_file():
            raise Refused("resource not found or not yet deployed")
        kept: Mapping[str, Any] = json.loads(self._deployed.read_text())
        return Bundle(settings={}, files={}, **kept)

    @property
    def _deployed(self) -> Path:
        return self.folder / "deployed.json"

    def _below(self, path: PurePosixPath) -> Path:
        return self.folder / path.relative_to("/")


def copy(workspace: Workspace, source: str, target: str, recursive: bool) -> list[str]:
    """`databricks fs cp` from here into a volume: what was copied, as `FROM -> TO`.

    Raises:
        Refused: there is no such file here, or no such folder in a volume.
    """
    here = Path(source)
    if not here.exists():
        raise Refused(f"no such file or directory: {source}")
    if not target.startswith(DBFS):
        raise Refused(f"{target}: only paths that begin with {DBFS}/Volumes can be copied to")
    there = workspace.at(target.removeprefix(DBFS).rstrip("/"))
    if here.is_dir() and not recursive:
        raise Refused(f"source path {source} is a directory. Please specify the --recursive flag")
    if here.is_dir():
        there.mkdir(parents=True, exist_ok=True)
        pairs = [(file, there / file.relative_to(here)) for file in sorted(here.rglob("*"))]
    else:
        pairs = [(here, there / here.name if there.is_dir() else there)]
    for folder in (to for file, to in pairs if file.is_dir()):
        folder.mkdir(exist_ok=True)
    return [_copied(workspace, file, to) for file, to in pairs if file.is_file()]


def _copied(workspace: Workspace, file: Path, to: Path) -> str:
    shown = f"{file} -> {DBFS}/{to.relative_to(workspace.folder)}"
    if to.exists():
        return f"{shown} (skipped; already exists)"
    if not to.parent.is_dir():
        raise Refused(f"no such directory: /{to.parent.relative_to(workspace.folder)}")
    shutil.copyfile(file, to)
    return shown
