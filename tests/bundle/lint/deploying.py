"""Rules about a deploy: the wheel, the CLI, who is named by default, what starts by itself."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.bundle.lint.finding import Finding, Rule
from tests.bundle.lint.reading import REFERENCE, Bundle, resolved, texts

FIRST_CLI = (1, 3, 0)
"""The first version that deploys without Terraform by default."""
PINNED = re.compile(
    r"[a-z0-9._-]+==[A-Za-z0-9.+!]+"
    r"|/Volumes/\S+/cdc_lakehouse-\d+\.\d+\.\d+-py3-none-any\.whl"
    r"|--no-index|--find-links=/Volumes/\S+"
)
WHEEL = "../dist/*.whl"
PEOPLE = (
    "group_name", "on_duration_warning_threshold_exceeded", "on_failure", "principal",
    "service_principal_name", "user_email", "user_name",
)  # fmt: skip


def wheel_cleanup(bundle: Bundle) -> Iterator[Finding]:
    """Without skip_artifact_cleanup a deploy deletes the wheel that queued runs install."""
    built = bundle.settings["artifacts"]
    if built and bundle.settings["experimental"].get("skip_artifact_cleanup") is not True:
        yield Finding("wheel_cleanup", "experimental", "skip_artifact_cleanup is not true")


def wheel_version(bundle: Bundle) -> Iterator[Finding]:
    """A wheel of other content has another version: else jobs keep the one in their cache."""
    preset = bundle.settings["presets"].get("artifacts_dynamic_version", False)
    for name, artifact in bundle.settings["artifacts"].items():
        dynamic = preset or artifact.get("dynamic_version", False)
        if not dynamic:
            found = f"dynamic version: {dynamic}"
            yield Finding("wheel_version", f"{bundle.target}.artifacts.{name}", found)


def old_cli(bundle: Bundle) -> Iterator[Finding]:
    wanted = str(bundle.settings["bundle"].get("databricks_cli_version", ""))
    found = re.fullmatch(r">= (\d+)\.(\d+)\.(\d+)", wanted)
    if not found or tuple(map(int, found.groups())) < FIRST_CLI:
        yield Finding("old_cli", "bundle", f"databricks_cli_version: {wanted or 'not said'}")


def dangerous_default(bundle: Bundle) -> Iterator[Finding]:
    """Who runs, operates, reads and is told must be named by whoever deploys to production."""
    declared = bundle.settings["variables"]
    assigned = bundle.settings["targets"][bundle.target].get("variables", {})
    for name in sorted(_people(bundle) & declared.keys()):
        if declared[name].get("default", []) != [] or (
            bundle.mode == "production" and name in assigned
        ):
            yield Finding("dangerous_default", f"var.{name}", "production has a default")


def unassigned_variable(bundle: Bundle) -> Iterator[Finding]:
    """Development needs no argument: whatever has no default is assigned there."""
    assigned = bundle.settings["targets"][bundle.target].get("variables", {})
    for name, declared in bundle.settings["variables"].items():
        if bundle.mode == "development" and "default" not in declared and name not in assigned:
            yield Finding("unassigned_variable", f"var.{name}", f"{bundle.target} has no value")


def awake_in_development(bundle: Bundle) -> Iterator[Finding]:
    if bundle.mode != "development":
        return
    for kind in ("jobs", "alerts"):
        for key, resource in bundle.resources.get(kind, {}).items():
            for name in {"continuous", "schedule", "trigger"} & resource.keys():
                status = resolved(resource[name].get("pause_status"), bundle.known)
                if status != "PAUSED":
                    found = f"{name}: {status or 'pause_status is not said'}"
                    yield Finding("awake_in_development", f"{kind}.{key}", found)


def unpinned_dependency(bundle: Bundle) -> Iterator[Finding]:
    """What a job installs beside the wheel has one version, in the YAML or a file it names."""
    for key, job in bundle.jobs.items():
        home = bundle.files[f"jobs.{key}"].parent
        for environment in job.get("environments", []):
            installed = resolved(environment["spec"].get("dependencies", []), bundle.known)
            lists = [text for text in installed if text.startswith("-r ")]
            place = f"jobs.{key}.{environment['environment_key']}"
            if not lists:
                yield Finding("unpinned_dependency", place, "nothing pins what the wheel needs")
            for text in installed:
                for loose in _loose(home, text):
                    yield Finding("unpinned_dependency", place, loose)


def untagged(bundle: Bundle) -> Iterator[Finding]:
    """Tags are how a bill tells this project from others; a preset gives them to all resources."""
    common = bundle.settings["presets"].get("tags", {})
    for kind in ("jobs", "sql_warehouses"):
        for key, resource in bundle.resources.get(kind, {}).items():
            if not common and not resource.get("tags"):
                yield Finding("untagged", f"{kind}.{key}", "no tags")


def missing_budget_policy(bundle: Bundle) -> Iterator[Finding]:
    for key, job in bundle.jobs.items():
        if job.get("environments") and "budget_policy_id" not in job:
            yield Finding("missing_budget_policy", f"jobs.{key}", "no budget_policy_id")


def _people(bundle: Bundle) -> set[str]:
    """Variables that name a person, a group or a service principal."""
    found: set[str] = set()

    def look(value: object) -> None:
        if isinstance(value, list):
            for inner in value:
                look(inner)
        if isinstance(value, dict):
            for key, inner in value.items():
                named = texts(inner) if key in PEOPLE else ()
                found.update(n for text in named for n in REFERENCE.findall(text))
                look(inner)

    look([bundle.settings, bundle.resources])
    return {name.removeprefix("var.") for name in found}


def _loose(home: Path, text: str) -> Iterator[str]:
    """What of one dependency is not pinned, and a list that is not there."""
    if text.startswith("-r "):
        path = home / text.removeprefix("-r ")
        text = path.read_text() if path.is_file() else f"no {path.name}"
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        yield from (line for line in lines if not PINNED.fullmatch(line))
    elif text != WHEEL and not PINNED.fullmatch(text):
        yield text


RULES: tuple[Rule, ...] = (
    wheel_cleanup,
    wheel_version,
    old_cli,
    dangerous_default,
    unassigned_variable,
    awake_in_development,
    unpinned_dependency,
    untagged,
    missing_budget_policy,
)
