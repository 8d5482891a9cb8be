"""Rules about files and variables: one resource in each file, named after it, with a header."""

from collections import Counter
from collections.abc import Iterator

from tests.bundle.lint.finding import Finding, Rule
from tests.bundle.lint.reading import Bundle, texts

KINDS = {
    "alerts": "alert",
    "dashboards": "dashboard",
    "jobs": "job",
    "schemas": "schema",
    "sql_warehouses": "sql_warehouse",
    "volumes": "volume",
}


def misnamed_file(bundle: Bundle) -> Iterator[Finding]:
    for resource, path in bundle.files.items():
        kind, key = resource.split(".")
        expected = f"{key}.{KINDS.get(kind, kind)}.yml"
        if path.name != expected:
            yield Finding("misnamed_file", resource, f"{path.name}, not {expected}")


def missing_header(bundle: Bundle) -> Iterator[Finding]:
    for resource, path in bundle.files.items():
        if not path.read_text().startswith("# "):
            yield Finding("missing_header", resource, f"{path.name} begins without a comment")


def duplicate_resource_key(bundle: Bundle) -> Iterator[Finding]:
    """`bundle run KEY` knows only the key: two kinds of resource cannot share it."""
    keys = Counter(resource.split(".")[1] for resource in bundle.files)
    for resource in bundle.files:
        if keys[resource.split(".")[1]] > 1 and not resource.startswith("schemas."):
            yield Finding("duplicate_resource_key", resource, "another kind has this key")


def missing_file(bundle: Bundle) -> Iterator[Finding]:
    for key, dashboard in bundle.resources.get("dashboards", {}).items():
        path = bundle.files[f"dashboards.{key}"].parent / dashboard.get("file_path", "")
        if not path.is_file():
            yield Finding("missing_file", f"dashboards.{key}", f"no {path.name}")


def undeclared_override(bundle: Bundle) -> Iterator[Finding]:
    """What a target says of a resource is lost when no file declares the resource."""
    for name, target in bundle.settings["targets"].items():
        for kind, resources in target.get("resources", {}).items():
            for key in resources:
                if f"{kind}.{key}" not in bundle.files:
                    place = f"targets.{name}.{kind}.{key}"
                    yield Finding("undeclared_override", place, "no file declares it")


def undescribed_variable(bundle: Bundle) -> Iterator[Finding]:
    for name, declared in bundle.settings["variables"].items():
        if not declared.get("description"):
            yield Finding("undescribed_variable", f"var.{name}", "no description")


def unused_variable(bundle: Bundle) -> Iterator[Finding]:
    used = "\n".join(texts([bundle.settings, bundle.resources]))
    for name in bundle.settings["variables"]:
        if f"${{var.{name}}}" not in used:
            yield Finding("unused_variable", f"var.{name}", "nothing refers to it")


def fixed_workspace(bundle: Bundle) -> Iterator[Finding]:
    """A host in databricks.yml ties the bundle to one workspace; profiles and variables give it."""
    places = {"workspace": bundle.settings.get("workspace", {})}
    for name, target in bundle.settings["targets"].items():
        places[f"targets.{name}.workspace"] = target.get("workspace", {})
    for place, workspace in places.items():
        if "host" in workspace:
            yield Finding("fixed_workspace", place, f"host {workspace['host']}")


def shared_root(bundle: Bundle) -> Iterator[Finding]:
    root = bundle.settings["targets"][bundle.target].get("workspace", {}).get("root_path", "")
    if root.startswith("/Workspace/Shared"):
        yield Finding(
            "shared_root", f"targets.{bundle.target}", "anyone may change /Workspace/Shared"
        )


RULES: tuple[Rule, ...] = (
    misnamed_file,
    missing_header,
    duplicate_resource_key,
    missing_file,
    undeclared_override,
    undescribed_variable,
    unused_variable,
    fixed_workspace,
    shared_root,
)
