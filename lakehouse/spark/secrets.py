"""Reads secrets of a Databricks workspace."""

import importlib
from typing import TYPE_CHECKING

from lakehouse.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_secret(spark: "SparkSession", path: str, key: str) -> str:
    """The secret of a path SCOPE/KEY; `key` is the configuration key that names it, for the error.

    Raises:
        ConfigurationError: there is no secret store here.
    """
    scope, _, secret = path.partition("/")
    try:
        utilities = importlib.import_module("pyspark.dbutils").DBUtils(spark)
    except ImportError as missing:
        raise ConfigurationError(
            "secrets", key, "no Databricks secret store", "a Databricks target", "use env:NAME here"
        ) from missing
    return str(utilities.secrets.get(scope=scope, key=secret))
