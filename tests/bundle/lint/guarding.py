"""Rules about production's data and readers: nothing deletes the one, and the others can read."""

import json
from collections.abc import Iterator

from tests.bundle.lint.finding import Faults, Fields, Finding, of_resources, rule
from tests.bundle.lint.reading import Bundle, resolved

DATA = ("schemas", "volumes")
GRANTED = {
    "schemas.gold": "SELECT",
    "volumes.landing": "WRITE_VOLUME",
    "volumes.reports": "READ_VOLUME",
}
PERMITTED = {"dashboards": "CAN_READ", "sql_warehouses": "CAN_USE"}
LAYOUT = "GRID_V1"


@of_resources(*DATA, mode="production")
def unguarded_data(_: Bundle, resource: Fields) -> Faults:
    """`destroy`, another catalog or another name would delete a schema or volume with its data."""
    if resource.get("lifecycle", {}).get("prevent_destroy") is not True:
        yield "prevent_destroy is not true"


@rule
def nobody_granted(bundle: Bundle) -> Iterator[Finding]:
    """Readers read gold, its dashboards and the reports; producers write into landing.

    The permissions of a bundle give readers neither its dashboards nor its warehouses.
    """
    if bundle.mode != "production":
        return
    for place, privilege in GRANTED.items():
        kind, key = place.split(".")
        grants = bundle.resources[kind].get(key, {}).get("grants", [])
        others = [grant for grant in grants if "service_principal" not in grant["principal"]]
        if not any(privilege in grant["privileges"] for grant in others):
            yield Finding("nobody_granted", place, f"nobody has {privilege}")
    for kind, level in PERMITTED.items():
        for key, resource in bundle.resources.get(kind, {}).items():
            if level not in {item["level"] for item in resource.get("permissions", [])}:
                yield Finding("nobody_permitted", f"{kind}.{key}", f"nobody has {level}")


@rule
def closed_schema(bundle: Bundle) -> Iterator[Finding]:
    """A privilege on a schema or a volume is of no use to whoever may not use the schema."""
    usable, granted = set(), []
    for kind in DATA if bundle.mode == "production" else ():
        for key, resource in bundle.resources.get(kind, {}).items():
            own = resource.get("name" if kind == "schemas" else "schema_name", "")
            schema = resolved(own, bundle.known)
            for grant in resource.get("grants", []):
                granted.append((f"{kind}.{key}", schema, grant["principal"]))
                if "USE_SCHEMA" in grant["privileges"]:
                    usable.add((schema, grant["principal"]))
    for place, schema, principal in granted:
        if (schema, principal) not in usable:
            yield Finding("closed_schema", place, f"{principal} has no USE_SCHEMA on {schema}")


@of_resources("dashboards", mode="production")
def unreadable_dashboard(bundle: Bundle, dashboard: Fields) -> Faults:
    """Each reader sees a dashboard with rights of their own: on gold they need SELECT."""
    gold = bundle.resources["schemas"].get("gold", {}).get("grants", [])
    selecting = {grant["principal"] for grant in gold if "SELECT" in grant["privileges"]}
    for one in dashboard.get("permissions", []):
        if one.get("group_name") not in selecting:
            yield f"{one.get('group_name')} has no SELECT on gold"


@of_resources("dashboards")
def missing_layout(bundle: Bundle, dashboard: Fields) -> Faults:
    path = bundle.folder / "resources" / dashboard["file_path"]
    for page in json.loads(path.read_text())["pages"] if path.is_file() else []:
        if page.get("layoutVersion") != LAYOUT:
            yield f"{page['name']}: layoutVersion is not {LAYOUT}"
