"""Rules about a project's workflows: who signs in how, and that a plan comes before a deploy."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.bundle.lint.finding import Finding, rule
from tests.bundle.lint.reading import LOADER, Bundle

WORKFLOWS = ".github/workflows"
PLAN, DEPLOY = "databricks bundle plan", "databricks bundle deploy"
RUN = "databricks bundle run cdc "
ON = True
"""The key `on`, which YAML reads as a truth value."""
PINNED = re.compile(r"[\w./-]+@v\d+\.\d+\.\d+")
SIGNED_IN = {"DATABRICKS_AUTH_TYPE": "github-oidc"}


@rule
def check_workflows(bundle: Bundle) -> Iterator[Finding]:
    """What is wrong with a workflow alone, or with what it gives to the bundle."""
    for name, workflow in _workflows(bundle):
        for named, text in (*_list_faults(workflow), *_list_missing(bundle, workflow)):
            yield Finding(named, name, text)


def _list_faults(workflow: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A deploy shows first what it will do, to the same target; actions have one version.

    The service principal signs in by GitHub's token: what is stored can leak. What comes from the
    repository's variables is named where it is not set.
    """
    for job in workflow["jobs"].values():
        said = [step.get("run", "") for step in job["steps"]]
        for at, text in enumerate(said):
            if text.startswith(DEPLOY) and PLAN + text.removeprefix(DEPLOY) not in said[:at]:
                yield "unplanned_deploy", "no plan before it"
        for used in (step["uses"] for step in job["steps"] if "uses" in step):
            if not PINNED.fullmatch(used):
                yield "unpinned_action", used
    if "${{ secrets." in yaml.safe_dump(workflow):
        yield "stored_secret", "a secret of the repository"
    signs_in = SIGNED_IN.items() <= workflow.get("env", {}).items()
    if not signs_in or workflow["permissions"].get("id-token") != "write":
        yield "stored_secret", "not signed in by GitHub's OIDC token"
    taken = {key for key, value in workflow["env"].items() if "${{ vars." in value}
    named = re.findall(r"\w+", " ".join(_commands(workflow)))
    yield from (("unset_variable", missing) for missing in taken - {*named})


def _list_missing(bundle: Bundle, workflow: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Production's variables without a default are given by each workflow.

    No workflow starts `cdc` beside a job that writes all the time.
    """
    wanted = {name for name, said in bundle.settings["variables"].items() if "default" not in said}
    wanted -= bundle.settings["targets"][bundle.target].get("variables", {}).keys()
    if bundle.mode == "production":
        given = {key.removeprefix("BUNDLE_VAR_") for key in workflow.get("env", {})}
        yield from (("unnamed_answer", f"no BUNDLE_VAR_{name}") for name in wanted - given)
    if any("continuous" in job for job in bundle.jobs.values()):
        for text in _commands(workflow):
            if RUN in text and not text.startswith("test -f resources/cdc_continuous.job.yml ||"):
                yield "second_writer", text


@rule
def powerful_check(bundle: Bundle) -> Iterator[Finding]:
    """A pull request, which anybody with a branch can open, does not sign in as who deploys."""
    signs_in = {name: w["env"].get("DATABRICKS_CLIENT_ID") for name, w in _workflows(bundle)}
    deploying = {signs_in[name] for name, w in _workflows(bundle) if "push" in w[ON]}
    for name, workflow in _workflows(bundle):
        if "pull_request" in workflow[ON] and signs_in[name] in deploying:
            yield Finding("powerful_check", name, "the principal that deploys")


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
