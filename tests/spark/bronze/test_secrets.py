import pytest
from pyspark.sql import SparkSession

from bronze.kafka.topics import resolve_secrets
from lakehouse.errors import ConfigurationError


def test_variables_are_looked_up_and_plain_values_kept(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_TEST", "open sesame")
    found = resolve_secrets(spark, {"a": "env:SECRET_OF_TEST", "b": "SASL_SSL"})
    assert found == {"a": "open sesame", "b": "SASL_SSL"}


def test_a_variable_that_is_not_set_is_named(spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match="NO_SUCH_VARIABLE_HERE"):
        resolve_secrets(spark, {"a": "env:NO_SUCH_VARIABLE_HERE"})


def test_a_secret_without_a_store_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match="Databricks secret store"):
        resolve_secrets(spark, {"a": "secret:scope/key"})
