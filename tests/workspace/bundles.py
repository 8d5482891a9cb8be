"""Validates, deploys and runs a bundle in a workspace that is a folder."""

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import mkdtemp

import yaml

from tests.bundle.lint.check import lint
from tests.bundle.lint.finding import Finding
from tests.bundle.lint.models import check_models
from tests.bundle.lint.reading import Bundle, read, resolved
from tests.bundle.runner import FAILED, run
from tests.helpers.wheel import build_wheel, install_wheel
from tests.workspace.compute import started
from tests.workspace.folders import Refused, Workspace

VARIABLE = "BUNDLE_VAR_"


def validate(workspace: Workspace, folder: Path) -> Bundle:
    """The bundle of a folder for its default target, as the signed-in user would deploy it.

    Raises:
        Refused: what the typed models or the lint find.
    """
    file = folder / "databricks.yml"
    if not file.is_file():
        raise Refused("unable to locate bundle root: databricks.yml not found")
    try:
        targets = yaml.safe_load(file.read_text())["targets"]
        [target] = (name for name, settings in targets.items() if settings.get("default"))
        bundle = _of_developer(workspace, read(folder, target))
    except yaml.YAMLError as broken:
        raise Refused(str(broken)) from broken
    found: list[Finding] = [*check_models(bundle), *lint(folder)]
    if found:
        raise Refused("\n".join(": ".join(finding) for finding in found))
    return bundle


def deploy(workspace: Workspace, folder: Path) -> None:
    """Build the wheel, make schemas and volumes, upload the configuration, keep the jobs.

    Raises:
        Refused: the bundle is not valid, its catalog is not there, or its wheel cannot be built.
    """
    bundle = validate(workspace, folder)
    workspace.check_catalogs(bundle)
    wheel = _build(bundle, folder)
    workspace.make_schemas(bundle)
    workspace.upload(bundle, folder)
    shutil.rmtree(workspace.programs.parent, ignore_errors=True)
    install_wheel(wheel, workspace.programs.parent)
    workspace.remember(bundle)


def run_job(workspace: Workspace, key: str) -> None:
    """Run a deployed job to its end.

    Raises:
        Refused: there is no such job, or it failed.
    """
    bundle = workspace.deployed()
    if key not in bundle.jobs:
        raise Refused(f'resource with key "{key}" not found')
    with started(workspace) as programs:
        steps = run(bundle, key, programs)
    failed = [step.task for step in steps if step.state == FAILED]
    if failed:
        raise Refused(f"job {key}: task {', '.join(failed)} failed")


def _of_developer(workspace: Workspace, bundle: Bundle) -> Bundle:
    """In development mode schemas have the user's name in theirs, and variables may be set."""
    assert bundle.mode == "development"
    known = {
        **bundle.known,
        "workspace.file_path": str(workspace.files),
        "workspace.current_user.userName": workspace.user,
    }
    for name in bundle.settings["variables"]:
        if VARIABLE + name in os.environ:
            known[f"var.{name}"] = os.environ[VARIABLE + name]
    for key, schema in bundle.resources["schemas"].items():
        known[f"resources.schemas.{key}.name"] = f"dev_{workspace.short_name}_{schema['name']}"
    return bundle._replace(known=known)


def _build(bundle: Bundle, folder: Path) -> Path:
    """The wheel that the jobs install, built by the artifact's own command.

    A bundle without one names a wheel of its own, or the published package, for which a wheel built
    here stands in.
    """
    package = bundle.known.get("var.package", "")
    if package.startswith("../"):
        return (folder / "resources" / package).resolve(strict=True)
    if not bundle.settings["artifacts"]:
        return build_wheel(Path(mkdtemp()))
    artifact = bundle.settings["artifacts"]["wheel"]
    command = resolved(artifact["build"], bundle.known)
    built = subprocess.run(
        [artifact["executable"], "-ec", command], cwd=folder, capture_output=True, text=True
    )
    if built.returncode:
        raise Refused(f"build failed wheel, error: exit code {built.returncode}\n{built.stderr}")
    [wheel] = (folder / "dist").glob("*.whl")
    return wheel
