"""The wheel by its own name; the code is in lakehouse, bronze, silver and gold.

`auto_cdc`, `auto_cdc_from_snapshot` and `decode_debezium` work in any Spark session.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdc_lakehouse.flows.api import auto_cdc as auto_cdc
    from cdc_lakehouse.flows.api import auto_cdc_from_snapshot as auto_cdc_from_snapshot
    from cdc_lakehouse.flows.batch import AutoCdcResult as AutoCdcResult
    from cdc_lakehouse.flows.debezium import decode_debezium as decode_debezium
    from cdc_lakehouse.flows.definition import AutoCdcError as AutoCdcError

_HOMES = {
    "auto_cdc": "api", "auto_cdc_from_snapshot": "api", "AutoCdcResult": "batch",
    "AutoCdcError": "definition",
    "decode_debezium": "debezium",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """The functions for other programs, imported when they are asked for: they need pyspark."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"cdc_lakehouse.flows.{_HOMES[name]}"), name)
