"""Rules about production's data and readers: nothing deletes the one, and the others can read."""

import json
from collections.abc import Iterator

from tests.bundle.lint.finding import Finding, Rule
from tests.bundle.lint.reading import Bundle, resolved

DATA = ("schemas", "volumes")
GRANTED = {
    "schemas.gold": "SELECT",
    "volumes.landing": "WRITE_VOLUME",
    "volumes.reports": "READ_VOLUME",
}
PERMITTED = {"dashboards": "CAN_READ", "sql_warehouses": "CAN_USE"}
LAYOUT = "GRID_V1"


def unguarded_data(bundle: Bundle) -> Iterator[Finding]:
    """`destroy`, another catalog or another name would delete a schema or volume with its data."""
    for kind in DATA if bundle.mode == "production" else ():
        for key, resource in bundle.resources.get(kind, {}).items():
            if resource.get("lifecycle", {}).get("prevent_destroy") is not True:
                yield Finding("unguarded_data", f"{kind}.{key}", "prevent_destroy is not true")


def nobody_granted(bundle: Bundle) -> Iterator[Finding]:
    """Readers read gold and the reports, and producers write into landing."""
    for place, privilege in GRANTED.items() if bundle.mode == "production" else ():
        kind, key = place.split(".")
        grants = bundle.resources[kind].get(key, {}).get("grants", [])
        others = [grant for grant in grants if "service_principal" not in grant["principal"]]
        if not any(privilege in grant["privileges"] for grant in others):
            yield Finding("nobody_granted", place, f"nobody has {privilege}")


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


def nobody_permitted(bundle: Bundle) -> Iterator[Finding]:
    """The permissions of a bundle give readers neither its dashboards nor its warehouses."""
    for kind, level in PERMITTED.items() if bundle.mode == "production" else ():
        for key, resource in bundle.resources.get(kind, {}).items():
            if level not in {item["level"] for item in resource.get("permissions", [])}:
                yield Finding("nobody_permitted", f"{kind}.{key}", f"nobody has {level}")


def unreadable_dashboard(bundle: Bundle) -> Iterator[Finding]:
    """Each reader sees a dashboard with rights of their own: on gold they need SELECT."""
    gold = bundle.resources["schemas"].get("gold", {}).get("grants", [])
    selecting = {grant["principal"] for grant in gold if "SELECT" in grant["privileges"]}
    for key, dashboard in bundle.resources.get("dashboards", {}).items():
        for one in dashboard.get("permissions", []) if bundle.mode == "production" else ():
            if one.get("group_name") not in selecting:
                found = f"{one.get('group_name')} has no SELECT on gold"
                yield Finding("unreadable_dashboard", f"dashboards.{key}", found)


def missing_layout(bundle: Bundle) -> Iterator[Finding]:
    for key, dashboard in bundle.resources.get("dashboards", {}).items():
        path = bundle.files[f"dashboards.{key}"].parent / dashboard["file_path"]
        pages = json.loads(path.read_text())["pages"] if path.is_file() else []
        for page in pages:
            if page.get("layoutVersion") != LAYOUT:
                place = f"dashboards.{key}.{page['name']}"
                yield Finding("missing_layout", place, f"layoutVersion is not {LAYOUT}")


RULES: tuple[Rule, ...] = (
    unguarded_data,
    nobody_granted,
    closed_schema,
    nobody_permitted,
    unreadable_dashboard,
    missing_layout,
)
