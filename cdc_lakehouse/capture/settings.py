"""What `conf/capture.yml` says: which tables of which database are captured, and where to."""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from cdc_lakehouse.drafts.sample import SIGNALS
from lakehouse.config.loading import find_yaml, read_yaml
from lakehouse.config.strict import Strict
from lakehouse.config.table import Duration
from lakehouse.config.target import MEMORY, Target
from lakehouse.config.unpacking import unpack_model
from lakehouse.errors import ConfigurationError, ManyConfigurationErrors

FILE = "capture"
NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
OWNED = re.compile(
    r"name$|topic\.prefix|(slot|publication|plugin)\.|publish\.via|lsn\.flush|offset\.|database\."
    r"(hostname|port|user|password|dbname|names|include|exclude)|(table|schema)\.(in|ex)clude\."
    r"|signal\.|schema\.history\.internal|snapshot\.mode$|heartbeat\.|read\.only|max\.batch\.size"
    r"|poll\.interval|header\.converter|extended\.headers|converter"
)
"""Names of Debezium's properties that `capture` sets itself."""
_SIZE, _UNITS = re.compile(r"^\s*(\d+)\s*([KMGT])i?B?\s*$", re.IGNORECASE), "KMGT"


def _check_name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError("small letters, digits and _, at most 41, a letter first")
    return text


def _check_size(text: str) -> str:
    if not _SIZE.match(text):
        raise ValueError("a size such as '512 MB' or '10 GB'")
    return text


def to_bytes(text: str) -> int:
    """The bytes of a size such as `10 GB`."""
    match = _SIZE.match(_check_size(text))
    return int(match[1]) << 10 * (_UNITS.index(match[2].upper()) + 1) if match else 0


Size = Annotated[str, AfterValidator(_check_size)]


class CaptureSettings(Strict):
    """The capture of one database."""

    name: Annotated[str, AfterValidator(_check_name)] = Field(
        description="Begins the topics' names, and is that of the slot and of the publication.",
    )
    source: str = Field(
        description="The database, such as `postgresql://me:env:PASSWORD@host:5432/shop`;"
        " `env:NAME` stands for a variable's value."
    )
    tables: list[str] = Field(
        min_length=1,
        description="Patterns of SCHEMA.TABLE (DATABASE.TABLE in MariaDB), such as `public.*`. A"
        " new table that matches is captured from then on.",
    )
    except_tables: list[str] = Field(
        default_factory=list, alias="except", description="Patterns of tables that are left out."
    )
    signals: str = Field(
        description="The table by which new tables are read, SCHEMA.TABLE; it is made where it"
        " does not exist."
    )
    landing: str | None = Field(
        default=None,
        description="The folder of the files, or its URL in an object store: `s3a://`, `abfss://`"
        " or `gs://`; by default `name` below the target's landing root.",
    )
    state: str | None = Field(
        default=None,
        description="The folder on this machine that holds the place in the log; by default"
        " `capture/NAME` below the target's root, or beside conf.",
    )
    snapshot_mode: Literal["initial", "no_data"] = Field(
        default="initial", description="`no_data`: no rows of before, only changes from now on."
    )
    file_seconds: float = Field(
        default=2.0, ge=0.1, le=5, description="After how many seconds a file is complete."
    )
    file_records: int = Field(
        default=4096, ge=1, le=100_000, description="After how many records a file is complete."
    )
    jars: str | None = Field(
        default=None, description="A folder with the connector's jars, so that none is fetched."
    )
    memory: str = Field(default="512m", pattern=MEMORY, description="The memory of Java.")
    max_lag: Duration = Field(
        default="10 minutes", description="`status` has an alarm where the lag is longer."
    )
    max_wal: Size = Field(
        default="10 GB", description="`status` has an alarm where the database keeps more log."
    )
    debezium: dict[str, str | int | bool] = Field(
        default_factory=dict, description="Further properties of Debezium's connector, as they are."
    )

    @property
    def url(self) -> URL:
        """The source as it is written."""
        return make_url(self.source)

    def matches(self, table: str) -> bool:
        """Whether SCHEMA.TABLE is to be captured."""
        if SIGNALS.search(table.partition(".")[2]) or table == self.signals:
            return False
        return any(fnmatchcase(table, each) for each in self.tables) and not any(
            fnmatchcase(table, each) for each in self.except_tables
        )


class CapturePlaces(Strict):
    """Where a capture writes: its landing folder or URL, and its own folder on this machine."""

    landing: str
    state: Path


def load_capture(
    conf: Path, target: Target, root: str | None
) -> tuple[CaptureSettings, CapturePlaces]:
    """The settings in conf/capture.yml, and where they write to.

    With `root` everything lies below that folder, as with every command.

    Raises:
        ConfigurationError: there is no such file.
        ManyConfigurationErrors: all that is wrong in the file.
    """
    file = find_yaml(conf, FILE)
    if not file.is_file():
        action = "write it: `lakehouse init --source URL --capture`"
        raise ConfigurationError(str(file), "(file)", "no file", "what is captured", action)
    settings = unpack_model(CaptureSettings, read_yaml(file), str(file))
    if errors := list(_check_settings(settings, str(file))):
        raise ManyConfigurationErrors(errors)
    landing = (root is None and settings.landing) or settings.name
    if "://" not in landing and not Path(landing).is_absolute():
        landing = f"{target.landing}/{landing}"
    here = target.root if target.root and "://" not in target.root else conf.absolute().parent
    state = (root is None and settings.state) or f"{here}/capture/{settings.name}"
    return settings, CapturePlaces(landing=landing, state=Path(state).expanduser().absolute())


def _check_settings(settings: CaptureSettings, file: str) -> Iterator[ConfigurationError]:
    try:
        is_url = bool(make_url(settings.source).database)
    except (ArgumentError, ValueError):
        is_url = False
    if not is_url:
        expected = "a URL with a database, such as postgresql://me:env:PASSWORD@host:5432/shop"
        problem = re.sub(r"://.*@", "://…@", settings.source)
        yield ConfigurationError(file, "source", problem, expected, "correct it")
    for key in ("signals", "tables", "except"):
        value = getattr(settings, "except_tables" if key == "except" else key)
        for name in [value] if isinstance(value, str) else value:
            if "." not in name.strip("."):
                expected = "SCHEMA.TABLE"
                yield ConfigurationError(file, key, name, expected, f"write public.{name}")
    yield from check_properties(settings.debezium, file)


def check_properties(given: Mapping[str, object], file: str) -> Iterator[ConfigurationError]:
    """An error for each property of Debezium that is the capture's own to set."""
    free = ("connector.class", "key.converter.schemas.enable", "value.converter.schemas.enable")
    for key in given:
        if OWNED.match(re.sub(r"^(key|value)\.(?=converter)", "", key)) and key not in free:
            expected = "a property that capture does not set itself"
            yield ConfigurationError(file, f"debezium.{key}", key, expected, "remove it")
