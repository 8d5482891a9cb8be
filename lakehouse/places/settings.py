"""Access to object stores: Spark's settings of the target, or else the environment.

Spark and this process use the same settings. A setting may name a variable: `env:NAME`.
"""

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from lakehouse.config.target import Target

_S3 = "spark.hadoop.fs.s3a."
_FROM_ENVIRONMENT = {
    f"{_S3}endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    f"{_S3}endpoint.region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    f"{_S3}access.key": ("AWS_ACCESS_KEY_ID",),
    f"{_S3}secret.key": ("AWS_SECRET_ACCESS_KEY",),
    f"{_S3}session.token": ("AWS_SESSION_TOKEN",),
}
"""S3A's settings, and the variables of AWS's own tools."""
_AZURE_KEY = "spark.hadoop.fs.azure.account.key."
_JARS = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "abfss": "org.apache.hadoop:hadoop-azure",
    "gs": "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26",
}
"""By scheme the jar that Spark needs; if it has no version it is Hadoop's."""


class Access(NamedTuple):
    """The options of an object store's client besides the URL; hashable."""

    options: tuple[tuple[str, str], ...] = ()
    allow_http: bool = False


def is_object_url(text: str) -> bool:
    """Whether the text is a URL of a supported object store."""
    scheme, separator, _ = text.partition("://")
    return bool(separator) and scheme in _JARS


def is_reached(target: Target, text: str) -> bool:
    """Whether this process can read the path or URL; on Databricks only Spark has the keys."""
    return "://" not in text or (is_object_url(text) and target.kind != "databricks")


def spark_settings(target: Target) -> dict[str, str]:
    """The target's settings of Spark, with those for its object stores."""
    given = {
        key: os.environ.get(text[4:], "") if text.startswith("env:") else text
        for key, text in target.settings.items()
    }
    schemes = _list_schemes(target)
    if "s3a" in schemes:
        given = _read_environment() | given
        if f"{_S3}endpoint" in given:
            given.setdefault(f"{_S3}path.style.access", "true")
    account = os.environ.get("AZURE_STORAGE_ACCOUNT_KEY")
    if "abfss" in schemes and account:
        host = (urlsplit(target.lake).hostname or "").lower()
        given.setdefault(f"{_AZURE_KEY}{host}", account)
    return given


def jars_of_stores(target: Target) -> list[str]:
    """Maven coordinates of the jars that Spark needs for the target's object stores."""
    if target.packages is not None:
        return target.packages
    jars = [_JARS[scheme] for scheme in sorted(_list_schemes(target))]
    return [jar if jar.count(":") > 1 else f"{jar}:{hadoop_version()}" for jar in jars]


def hadoop_version() -> str:
    """The version of Hadoop in pyspark."""
    spec = find_spec("pyspark")
    jars = Path(str(spec.origin)).parent / "jars" if spec else Path()
    matches = (re.fullmatch(r"hadoop-client-api-(.+)\.jar", jar.name) for jar in jars.glob("*.jar"))
    return next((match[1] for match in matches if match), "3.5.0")


def access_of(target: Target, scheme: str) -> Access:
    """The options of this process's client; others come from the environment."""
    given = spark_settings(target)
    if scheme == "abfss":
        keys = [text for key, text in given.items() if key.startswith(_AZURE_KEY)]
        return Access(tuple(("account_key", text) for text in keys[:1]))
    if scheme != "s3a":
        return Access()
    options = {
        name: given[f"{_S3}{key}"] for key, name in _S3_OPTIONS.items() if f"{_S3}{key}" in given
    }
    path_style = given.get(f"{_S3}path.style.access", "false") == "true"
    options["virtual_hosted_style_request"] = str(not path_style).lower()
    endpoint = options.get("endpoint", "")
    if endpoint and "://" not in endpoint:
        options["endpoint"] = f"https://{endpoint}"
    return Access(tuple(sorted(options.items())), endpoint.startswith("http://"))


_S3_OPTIONS = {
    "endpoint": "endpoint",
    "endpoint.region": "region",
    "access.key": "access_key_id",
    "secret.key": "secret_access_key",
    "session.token": "session_token",
}


def uses_stores(target: Target) -> bool:
    """Whether any folder of the target is in an object store."""
    return bool(_list_schemes(target))


def _list_schemes(target: Target) -> set[str]:
    places = (target.root or "", target.landing, target.checkpoints)
    return {text.partition("://")[0] for text in places if is_object_url(text)}


def _read_environment() -> dict[str, str]:
    candidates = ((key, map(os.environ.get, names)) for key, names in _FROM_ENVIRONMENT.items())
    settings = ((key, next(filter(None, values), None)) for key, values in candidates)
    return {key: text for key, text in settings if text}
