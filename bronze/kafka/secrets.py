"""Values of connection options that the configuration only points at."""

import importlib
import os
from collections.abc import Mapping

from pyspark.sql import SparkSession

from lakehouse.errors import ConfigurationError


def resolved(spark: SparkSession, options: Mapping[str, str]) -> dict[str, str]:
    """The options with `env:NAME` and `secret:SCOPE/KEY` replaced by what they stand for.

    Raises:
        ConfigurationError: the variable or the secret store is not there; the value is never told.
    """
    return {key: _resolved(spark, key, value) for key, value in options.items()}


def _resolved(spark: SparkSession, key: str, value: str) -> str:
    kind, _, rest = value.partition(":")
    if kind == "env":
        return _from_environment(key, rest)
    return _from_store(spark, key, rest) if kind == "secret" else value


def _from_environment(key: str, variable: str) -> str:
    if variable in os.environ:
        return os.environ[variable]
    expected = f"an environment variable {variable}"
    raise ConfigurationError("source", f"kafka.security.{key}", "nothing", expected, "set it")


def _from_store(spark: SparkSession, key: str, path: str) -> str:
    """Databricks secrets; the scope is what stands before the first slash."""
    scope, _, secret = path.partition("/")
    try:
        utilities = importlib.import_module("pyspark.dbutils").DBUtils(spark)
    except ImportError as missing:
        raise ConfigurationError(
            "source", f"kafka.security.{key}", "no Databricks secret store",
            "a Databricks target", "use env:NAME here",
        ) from missing  # fmt: skip
    return str(utilities.secrets.get(scope=scope, key=secret))
