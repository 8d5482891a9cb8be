"""The URL of a source database as people give it: its driver, and its password by `env:NAME`."""

import os
import re

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from lakehouse.errors import ConfigurationError

DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
    "mariadb+pymysql": "mysql+pymysql",
}
EXTRAS = {"postgresql+psycopg": "postgres", "mysql+pymysql": "mysql"}
ENVIRONMENT = "env:"
SYSTEM_SCHEMAS = ("pg_catalog", "information_schema", "mysql", "performance_schema", "sys")


def checked_url(url: str) -> URL:
    """The URL with a driver that is here, and with its password out of the environment.

    Raises:
        ConfigurationError: it is not an SQLAlchemy URL, its driver is not installed, or the
            environment lacks the variable that its password names.
    """
    try:
        given = make_url(url)
        named = given.set(drivername=DRIVERS.get(given.drivername, given.drivername))
    except (ArgumentError, ValueError) as wrong:
        raise _wrong(url, "correct it") from wrong
    try:
        named.get_dialect().import_dbapi()
    except NoSuchModuleError as wrong:
        raise _wrong(url, "correct it") from wrong
    except ImportError as wrong:
        package = EXTRAS.get(named.drivername)
        action = f"pip install 'cdc-lakehouse[{package}]'" if package else f"install {wrong.name}"
        raise _wrong(url, f"install the driver: {action}") from wrong
    return _with_password(named)


def without_password(url: str) -> str:
    """The URL for a message."""
    return re.sub(r"://.*@", "://…@", url)


def _with_password(url: URL) -> URL:
    password = str(url.password or "")
    if not password.startswith(ENVIRONMENT):
        return url
    name = password.removeprefix(ENVIRONMENT)
    if name not in os.environ:
        raise ConfigurationError(
            "command line", "--source", f"a password in {password}", "it in the environment",
            f"export {name}=…",
        )  # fmt: skip
    return url.set(password=os.environ[name])


def _wrong(url: str, action: str) -> ConfigurationError:
    expected = "an SQLAlchemy URL, such as postgresql://user:env:PASSWORD@host:5432/database"
    return ConfigurationError("command line", "--source", without_password(url), expected, action)
