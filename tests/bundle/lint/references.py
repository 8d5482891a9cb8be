"""Rules about `${…}` and `{{…}}`: what they name is declared, and names are always referred to."""

import re
from collections.abc import Iterator

from tests.bundle.lint.finding import Faults, Fields, Finding, of_resources, rule
from tests.bundle.lint.reading import REFERENCE, Bundle, resolved, texts

PARAMETER = re.compile(r"\{\{\s*job\.parameters\.([^}\s]+)\s*\}\}")
DYNAMIC = re.compile(r"\{\{.*?\}\}")
TASK_VALUE = re.compile(r"\{\{\s*tasks\.[^}]*\.values\.")
REFERRING_FIELDS = (
    "catalog_name",
    "dataset_catalog",
    "dataset_schema",
    "job_id",
    "schema_name",
    "warehouse_id",
)


@rule
def undeclared_reference(bundle: Bundle) -> Iterator[Finding]:
    """A `${var.x}`, `${resources…}` or other reference that nothing declares."""
    rules = {"var": "undeclared_variable", "resources": "undeclared_resource"}
    for text in texts([bundle.settings, bundle.resources]):
        for reference in REFERENCE.findall(text):
            if reference not in bundle.known:
                rule = rules.get(reference.split(".")[0], "unknown_reference")
                yield Finding(rule, bundle.target, f"${{{reference}}}")


@of_resources("jobs")
def check_parameters(bundle: Bundle, job: Fields) -> Faults:
    """A parameter is declared, and reaches a wheel only when a task passes it on.

    What run_job_task hands to another job must be a parameter of that job.
    """
    declared = {parameter["name"] for parameter in job.get("parameters", [])}
    passed = {name for text in texts(job["tasks"]) for name in PARAMETER.findall(text)}
    yield from (("undeclared_job_parameter", f"job.parameters.{n}") for n in passed - declared)
    yield from (("unpassed_job_parameter", name) for name in declared - passed)
    ids = {bundle.known[f"resources.jobs.{key}.id"]: of for key, of in bundle.jobs.items()}
    for call in (task["run_job_task"] for task in job["tasks"] if "run_job_task" in task):
        called = ids.get(resolved(call["job_id"], bundle.known), {})
        known = {parameter["name"] for parameter in called.get("parameters", [])}
        for name in set(call.get("job_parameters", {})) - known:
            yield "undeclared_called_parameter", name


@of_resources("jobs")
def task_value(_: Bundle, job: Fields) -> Faults:
    """A value that another task sets stays unset outside of notebooks, and its use is an error."""
    yield from filter(TASK_VALUE.search, texts(job["tasks"]))


@rule
def hard_coded_name(bundle: Bundle) -> Iterator[Finding]:
    """Catalogs, schemas, volumes, jobs and warehouses are named by `${…}`: dev names differ."""
    names = {schema["name"] for schema in bundle.resources["schemas"].values() if "name" in schema}
    names |= {
        str(target.get("variables", {}).get("catalog"))
        for target in bundle.settings["targets"].values()
    }
    written = re.compile(
        rf"/Volumes/|(?:^|[\s=.`])(?:{'|'.join(map(re.escape, names))})(?:$|[\s.`])"
    )
    for place, field, text in _fields(bundle):
        rest = DYNAMIC.sub("", REFERENCE.sub("", text))
        if (field in REFERRING_FIELDS and rest) or written.search(rest):
            yield Finding("hard_coded_name", place, f"{field}: {text}")


def _fields(bundle: Bundle) -> Iterator[tuple[str, str, str]]:
    """Place, field and text of every field where a name may stand."""
    for kind, declared in bundle.resources.items():
        for key, resource in declared.items():
            for field in (*REFERRING_FIELDS, "query_text"):
                if field in resource:
                    yield f"{kind}.{key}", field, str(resource[field])
    for key, job in bundle.jobs.items():
        for parameter in job.get("parameters", []):
            yield f"jobs.{key}", parameter["name"], parameter["default"]
        for task in job["tasks"]:
            for field in ("python_wheel_task", "run_job_task"):
                for text in texts(task.get(field, {}).get("parameters", [])):
                    yield f"jobs.{key}.{task['task_key']}", "parameters", text
            if "run_job_task" in task:
                yield (
                    f"jobs.{key}.{task['task_key']}",
                    "job_id",
                    str(task["run_job_task"]["job_id"]),
                )
        url = job.get("trigger", {}).get("file_arrival", {}).get("url", "")
        yield f"jobs.{key}", "url", url.removesuffix("/")
