"""Great Expectations at work: a context without a project of its own, a suite, a checkpoint.

Great Expectations is an optional package that warns when it is imported and of its own doings; it
is imported where it is used, and its warnings go no further. Nothing is sent anywhere, and no
DataFrame is persisted (serverless Spark refuses that).
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib import import_module
from typing import Any

from pyspark.sql import DataFrame

from lakehouse.table import Expectation, Table

_NO_PROGRESS = {"globally": False, "metric_calculations": False}
_ISO_DAY = len("2024-01-31")


def validate(
    table: Table, rows: DataFrame, folder: str, result_format: dict[str, Any]
) -> list[dict[str, Any]]:
    """One result of Great Expectations per expectation of the table, in the table's order.

    Results are kept as JSON in FOLDER/results; the Data Docs site in FOLDER/docs gets a page for this
    run and keeps those of earlier ones.
    """
    with _quiet():
        gx = import_module("great_expectations")
        import_module("gold.like_metrics")
        outcome = _checkpoint(gx, table, folder, result_format).run({"dataframe": rows})
        results = [result for run in outcome.run_results.values() for result in run.results]
        found = [result.to_json_dict() for result in results]
    return sorted(found, key=position)


def position(result: dict[str, Any]) -> int:
    """Place of a result's expectation in the table's list."""
    return int(result["expectation_config"]["meta"]["position"])


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _checkpoint(gx: Any, table: Table, folder: str, result_format: dict[str, Any]) -> Any:
    context = _context(gx, folder)
    suite = context.suites.add(
        gx.ExpectationSuite(name=table.table, expectations=_suite(gx, table))
    )
    source = context.data_sources.add_spark(name="gold", persist=False)
    asset = source.add_dataframe_asset(name=table.table)
    batch = asset.add_batch_definition_whole_dataframe("rows")
    definition = gx.ValidationDefinition(name=table.table, data=batch, suite=suite)
    return context.checkpoints.add(
        gx.Checkpoint(
            name=table.table,
            validation_definitions=[context.validation_definitions.add(definition)],
            actions=[gx.checkpoint.UpdateDataDocsAction(name="docs")],
            result_format=result_format,
        )
    )


def _context(gx: Any, folder: str) -> Any:
    types = import_module("great_expectations.data_context.types.base")
    config = types.DataContextConfig(
        store_backend_defaults=types.InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        analytics_enabled=False,
        progress_bars=_NO_PROGRESS,
        data_docs_sites={"docs": _site(f"{folder}/docs")},
    )
    config.stores[config.validation_results_store_name] = {
        "class_name": "ValidationResultsStore",
        "store_backend": _files(f"{folder}/results"),
    }
    return gx.get_context(mode="ephemeral", project_config=config)


def _site(folder: str) -> dict[str, Any]:
    index = {"class_name": "DefaultSiteIndexBuilder"}
    return {
        "class_name": "SiteBuilder",
        "store_backend": _files(folder),
        "site_index_builder": index,
    }


def _files(folder: str) -> dict[str, Any]:
    return {"class_name": "TupleFilesystemStoreBackend", "base_directory": folder}


def _suite(gx: Any, table: Table) -> list[Any]:
    written = import_module("great_expectations.expectations.expectation_configuration")
    return [
        written.ExpectationConfiguration(
            type=expectation.type,
            severity=expectation.severity,
            kwargs=_arguments(expectation),
            meta={**expectation.arguments.get("meta", {}), "position": place},
        ).to_domain_obj()
        for place, expectation in enumerate(table.expectations)
    ]


def _arguments(expectation: Expectation) -> dict[str, Any]:
    """The arguments as they are written, but for timestamps without a zone: they are in UTC."""
    given = {name: value for name, value in expectation.arguments.items() if name != "meta"}
    return {
        name: _in_utc(value) if name.endswith("_value") else value for name, value in given.items()
    }


def _in_utc(value: object) -> object:
    if isinstance(value, str) and len(value) > _ISO_DAY:
        return _in_utc(datetime.fromisoformat(value))
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=timezone.utc)
    return value
