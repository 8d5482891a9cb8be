"""Runs Great Expectations: a context in memory, a suite and a checkpoint.

Importing this module imports Great Expectations, an optional package that emits many warnings:
`gold.quality.run` imports and calls it with warnings ignored. Nothing is sent anywhere, and no
DataFrame is persisted (serverless Spark refuses that).
"""

from datetime import datetime, timezone
from typing import Any

import great_expectations as gx
from great_expectations.core.run_identifier import RunIdentifier
from great_expectations.core.validation_definition import ValidationDefinition
from great_expectations.data_context.data_context.ephemeral_data_context import EphemeralDataContext
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)
from great_expectations.expectations.expectation import Expectation as Written
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
from great_expectations.expectations.metadata_types import FailureSeverity
from pyspark.sql import DataFrame

from gold.quality import like_metrics as like_metrics
from lakehouse.config.table import Expectation, Table

_ISO_DAY = len("2024-01-31")
_BOUNDS = ("min_value", "max_value")


def validate_rows(
    table: Table, rows: DataFrame, folder: str, result_format: dict[str, Any], run: str
) -> list[dict[str, Any]]:
    """One result of Great Expectations per expectation of the table, in the table's order.

    Results are kept as JSON in FOLDER/results, under the name of the run.
    """
    checkpoint = _build_checkpoint(table, folder, result_format)
    outcome = checkpoint.run({"dataframe": rows}, run_id=RunIdentifier(run_name=run))
    results = [result for run in outcome.run_results.values() for result in run.results]
    as_json = (result.to_json_dict() for result in results)
    return sorted(as_json, key=lambda result: result["expectation_config"]["meta"]["position"])


def _build_checkpoint(table: Table, folder: str, result_format: dict[str, Any]) -> gx.Checkpoint:
    context = _build_context(folder)
    suite = context.suites.add(
        gx.ExpectationSuite(name=table.table, expectations=_build_suite(table))
    )
    source = context.data_sources.add_spark(name="gold", persist=False)
    asset = source.add_dataframe_asset(name=table.table)
    batch = asset.add_batch_definition_whole_dataframe("rows")
    definition = ValidationDefinition(name=table.table, data=batch, suite=suite)
    return context.checkpoints.add(
        gx.Checkpoint(
            name=table.table,
            validation_definitions=[context.validation_definitions.add(definition)],
            result_format=result_format,
        )
    )


def _build_context(folder: str) -> EphemeralDataContext:
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False, metric_calculations=False),
        data_docs_sites={},
    )
    config.stores[config.validation_results_store_name] = {
        "class_name": "ValidationResultsStore",
        "store_backend": {
            "class_name": "TupleFilesystemStoreBackend",
            "base_directory": f"{folder}/results",
        },
    }
    return gx.get_context(mode="ephemeral", project_config=config)


def _build_suite(table: Table) -> list[Written]:
    return [
        ExpectationConfiguration(
            type=expectation.type,
            severity=FailureSeverity(expectation.severity),
            kwargs=_read_arguments(expectation),
            meta={**(expectation.arguments.get("meta") or {}), "position": place},
        ).to_domain_obj()
        for place, expectation in enumerate(table.expectations)
    ]


def _read_arguments(expectation: Expectation) -> dict[str, Any]:
    """The arguments as they are written, but for timestamps without a zone: they are in UTC."""
    given = {name: value for name, value in expectation.arguments.items() if name != "meta"}
    return {name: _in_utc(value) if name in _BOUNDS else value for name, value in given.items()}


def _in_utc(value: object) -> object:
    if isinstance(value, str) and len(value) > _ISO_DAY:
        return _in_utc(datetime.fromisoformat(value))
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=timezone.utc)
    return value
