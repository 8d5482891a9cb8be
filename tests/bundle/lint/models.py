"""What Databricks' own typed models find in a bundle's resources."""

from collections.abc import Iterator
from typing import Any

from databricks.bundles.alerts import Alert
from databricks.bundles.dashboards import Dashboard
from databricks.bundles.jobs import Job
from databricks.bundles.schemas import Schema
from databricks.bundles.sql_warehouses import SqlWarehouse
from databricks.bundles.volumes import Volume

from tests.bundle.lint.finding import Finding
from tests.bundle.lint.reading import REFERENCE, Bundle, resolved, texts

MODELS: dict[str, Any] = {
    "alerts": Alert,
    "dashboards": Dashboard,
    "jobs": Job,
    "schemas": Schema,
    "sql_warehouses": SqlWarehouse,
    "volumes": Volume,
}


def check_models(bundle: Bundle) -> list[Finding]:
    """What is wrong with the fields, types and references of all resources."""
    return [
        finding
        for kind, declared in bundle.resources.items()
        for key in declared
        for finding in check_resource(bundle, kind, key)
    ]


def check_resource(bundle: Bundle, kind: str, key: str) -> Iterator[Finding]:
    """The same of one resource."""
    place = f"{kind}.{key}"
    ids = {name for name in bundle.known if name.endswith(".id")}
    known = {name: text for name, text in bundle.known.items() if name not in ids}
    resource = resolved(bundle.resources[kind][key], known)
    try:
        model = MODELS[kind].from_dict(resource)
    except (TypeError, ValueError) as wrong:
        yield Finding("model", place, str(wrong))
        return
    for name in sorted({n for text in texts(resource) for n in REFERENCE.findall(text)} - ids):
        yield Finding("model", place, f"nothing is known of ${{{name}}}")
    for field in sorted(set(resource) - set(model.as_dict())):
        if resource[field] == {"on_failure": []}:
            continue  # an empty list is nothing
        yield Finding("model", place, f"{field} is lost")
