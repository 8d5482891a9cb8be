"""Reads a bundle's folder for one target, as `databricks bundle validate` would resolve it."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml

REFERENCE = re.compile(r"\$\{([A-Za-z0-9_.-]+)\}")
DEEPEST = 5
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Value = TypeVar("Value")


class Bundle(NamedTuple):
    """One target of a bundle: its `resources` as written, and what its references stand for.

    `settings` is databricks.yml, in which the target's own settings are merged over the others.
    """

    target: str
    settings: dict[str, Any]
    resources: dict[str, dict[str, dict[str, Any]]]
    files: dict[str, Path]
    known: dict[str, Any]

    @property
    def folder(self) -> Path:
        """Where databricks.yml lies."""
        return next(iter(self.files.values())).parents[1]

    @property
    def jobs(self) -> dict[str, dict[str, Any]]:
        return self.resources.get("jobs", {})

    @property
    def mode(self) -> str:
        """`development` or `production`."""
        mode: str = self.settings["targets"][self.target]["mode"]
        return mode


def targets(folder: Path) -> list[str]:
    """Names of the targets in databricks.yml."""
    return list(_yaml(folder / "databricks.yml")["targets"])


def read(folder: Path, target: str) -> Bundle:
    """The bundle as `target` sees it; `files` tells which file declares `jobs.cdc`."""
    settings = _yaml(folder / "databricks.yml")
    resources: dict[str, dict[str, dict[str, Any]]] = {}
    files: dict[str, Path] = {}
    for path in sorted(path for pattern in settings["include"] for path in folder.glob(pattern)):
        for kind, declared in _yaml(path)["resources"].items():
            resources.setdefault(kind, {}).update(declared)
            files.update({f"{kind}.{key}": path for key in declared})
    own = settings["targets"][target]
    resources = _merged(resources, own.get("resources", {}))
    names = ("artifacts", "experimental", "permissions", "presets")
    for name in names:
        settings[name] = _merged(settings.get(name, {}), own.get(name, {}))
    known = _known(settings, target, resources)
    return Bundle(target, settings, resources, files, known)


def resolved(value: Value, known: Mapping[str, Any]) -> Value:
    """The same value with every known `${…}` replaced, also those within what replaces them."""
    if isinstance(value, dict):
        return {key: resolved(inner, known) for key, inner in value.items()}
    if isinstance(value, list):
        return [resolved(inner, known) for inner in value]
    if not isinstance(value, str):
        return value
    whole = REFERENCE.fullmatch(value)
    if whole and not isinstance(known.get(whole[1], ""), str):
        return known[whole[1]]
    for _ in range(DEEPEST):
        value = REFERENCE.sub(lambda found: known.get(found[1], found[0]), value)
    return value


def texts(value: object) -> Iterator[str]:
    """Every string within a value of YAML."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


def _merged(value: Any, over: Any) -> Any:
    """A target's value over the common one: maps key by key, lists one after the other."""
    if isinstance(value, dict) and isinstance(over, dict):
        both = {key: _merged(value[key], over[key]) for key in value.keys() & over.keys()}
        return {**value, **over, **both}
    if isinstance(value, list) and isinstance(over, list):
        return [*value, *over]
    return over or value


def _yaml(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load(path.read_text(), LOADER)
    return loaded


def _known(settings: dict[str, Any], target: str, resources: dict[str, Any]) -> dict[str, Any]:
    """What each reference stands for: fields of resources, variables, the workspace's places."""
    known: dict[str, Any] = {
        "bundle.name": settings["bundle"]["name"],
        "bundle.target": target,
        "workspace.file_path": "/Workspace/bundle/files",
        "workspace.current_user.userName": "someone@example.com",
    }
    for name, declared in settings["variables"].items():
        if "default" in declared:
            known[f"var.{name}"] = declared["default"]
        elif settings["targets"][target]["mode"] == "production":
            known[f"var.{name}"] = f"{name} of whoever deploys"
    for name, value in settings["targets"][target].get("variables", {}).items():
        known[f"var.{name}"] = value
    for kind, declared in resources.items():
        for key, resource in declared.items():
            known.update(_fields(f"resources.{kind}.{key}", resource))
    return known


def _fields(prefix: str, resource: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A resource's own text fields and those that only the workspace knows."""
    yield f"{prefix}.id", f"id of {prefix.removeprefix('resources.')}"
    yield from (
        (f"{prefix}.{name}", text) for name, text in resource.items() if isinstance(text, str)
    )
    if prefix.startswith("resources.volumes.") and "catalog_name" in resource:
        place = [resource[part] for part in ("catalog_name", "schema_name", "name")]
        yield f"{prefix}.volume_path", "/Volumes/" + "/".join(place)
