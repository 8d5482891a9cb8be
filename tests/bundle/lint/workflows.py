"""Rules about a project's workflows: who signs in how, and that a plan comes before a deploy."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.bundle.lint.finding import Finding, Rule
from tests.bundle.lint.reading import LOADER, Bundle

WORKFLOWS = ".github/workflows"
PLAN, DEPLOY = "databricks bundle plan", "databricks bundle deploy"
RUN = "databricks bundle run cdc "
ON = True
"""The key `on`, which YAML reads as a truth value."""
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


def second_writer(bundle: Bundle) -> Iterator[Finding]:
    """No workflow starts `cdc` beside a job that writes all the time."""
    if not any("continuous" in job for job in bundle.jobs.values()):
        return
    for name, workflow in _workflows(bundle):
        for text in _commands(workflow):
            if RUN in text and not text.startswith("test -f resources/cdc_continuous.job.yml ||"):
                yield Finding("second_writer", name, text)


def powerful_check(bundle: Bundle) -> Iterator[Finding]:
    """A pull request, which anybody with a branch can open, does not sign in as who deploys."""
    signs_in = {name: w["env"].get("DATABRICKS_CLIENT_ID") for name, w in _workflows(bundle)}
    deploying = {signs_in[name] for name, w in _workflows(bundle) if "push" in w[ON]}
    for name, workflow in _workflows(bundle):
        if "pull_request" in workflow[ON] and signs_in[name] in deploying:
            yield Finding("powerful_check", name, "the principal that deploys")


def unset_variable(bundle: Bundle) -> Iterator[Finding]:
    """What a workflow takes from the repository's variables is named where it is not set."""
    for name, workflow in _workflows(bundle):
        taken = {key for key, value in workflow["env"].items() if "${{ vars." in value}
        said = re.findall(r"\w+", " ".join(_commands(workflow)))
        for missing in sorted(taken - {*said}):
            yield Finding("unset_variable", name, missing)


def _commands(workflow: dict[str, Any]) -> list[str]:
    """The commands of all steps of a workflow."""
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    return [step["run"] for step in steps if "run" in step]


def _workflows(bundle: Bundle) -> Iterator[tuple[str, dict[str, Any]]]:
    """Those that call Databricks' CLI."""
    for file in sorted((bundle.folder / WORKFLOWS).glob("*.yml")):
        text = file.read_text()
        if "run: databricks " in text:
            yield file.name, yaml.load(text, LOADER)


RULES: tuple[Rule, ...] = (
    unplanned_deploy,
    stored_secret,
    unpinned_action,
    unnamed_answer,
    second_writer,
    powerful_check,
    unset_variable,
)
