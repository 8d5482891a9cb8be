"""Rules about a project's workflows: who signs in how, and that a plan comes before a deploy."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.bundle.lint.finding import Finding, Rule
from tests.bundle.lint.reading import LOADER, Bundle

WORKFLOWS = ".github/workflows"
PLAN, DEPLOY = "databricks bundle plan", "databricks bundle deploy"
PINNED = re.compile(r"[\w./-]+@v\d+\.\d+\.\d+")
SIGNED_IN = {"DATABRICKS_AUTH_TYPE": "github-oidc"}


def unplanned_deploy(bundle: Bundle) -> Iterator[Finding]:
    """A deploy shows first what it will do, to the same target."""
    for name, workflow in _workflows(bundle):
        for key, job in workflow["jobs"].items():
            said = [step.get("run", "") for step in job["steps"]]
            for at, text in enumerate(said):
                target = text.removeprefix(DEPLOY)
                if text.startswith(DEPLOY) and PLAN + target not in said[:at]:
                    yield Finding("unplanned_deploy", f"{name}.{key}", "no plan before it")


def stored_secret(bundle: Bundle) -> Iterator[Finding]:
    """The service principal signs in by GitHub's token; what is stored can leak."""
    for name, workflow in _workflows(bundle):
        if "${{ secrets." in yaml.safe_dump(workflow):
            yield Finding("stored_secret", name, "a secret of the repository")
        signs_in = SIGNED_IN.items() <= workflow.get("env", {}).items()
        if not signs_in or workflow["permissions"].get("id-token") != "write":
            yield Finding("stored_secret", name, "not signed in by GitHub's OIDC token")


def unpinned_action(bundle: Bundle) -> Iterator[Finding]:
    for name, workflow in _workflows(bundle):
        for job in workflow["jobs"].values():
            for used in (step["uses"] for step in job["steps"] if "uses" in step):
                if not PINNED.fullmatch(used):
                    yield Finding("unpinned_action", name, used)


def unnamed_answer(bundle: Bundle) -> Iterator[Finding]:
    """Production's variables without a default are given by each workflow."""
    wanted = {name for name, said in bundle.settings["variables"].items() if "default" not in said}
    wanted -= bundle.settings["targets"][bundle.target].get("variables", {}).keys()
    for name, workflow in _workflows(bundle) if bundle.mode == "production" else ():
        for missing in sorted(wanted - {key[11:] for key in workflow.get("env", {})}):
            yield Finding("unnamed_answer", name, f"no BUNDLE_VAR_{missing}")


def _workflows(bundle: Bundle) -> Iterator[tuple[str, dict[str, Any]]]:
    """Those that call Databricks' CLI."""
    for file in sorted((bundle.folder / WORKFLOWS).glob("*.yml")):
        text = file.read_text()
        if "run: databricks " in text:
            yield file.name, yaml.load(text, LOADER)


RULES: tuple[Rule, ...] = (unplanned_deploy, stored_secret, unpinned_action, unnamed_answer)
