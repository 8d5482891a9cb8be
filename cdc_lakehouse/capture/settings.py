"""What `conf/capture.yml` says: which tables of which database are captured, and where to."""

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, ByteSize, Field
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from cdc_lakehouse.drafts.sample import SIGNALS
from lakehouse.config.loading import find_yaml, read_yaml
from lakehouse.config.strict import Strict
from lakehouse.config.table import Duration
from lakehouse.config.target import MEMORY, Target
from lakehouse.config.unpacking import unpack_model
from lakehouse.errors import ConfigurationError

FILE = "capture"
OWNED = re.compile(
    r"name$|topic\.prefix|(slot|publication|plugin)\.|publish\.via|lsn\.flush|offset\.|database\."
    r"(hostname|port|user|password|dbname|names|include|exclude)|(table|schema)\.(in|ex)clude\."
    r"|signal\.|schema\.history\.internal|snapshot\.mode$|heartbeat\.|read\.only|max\.batch\.size"
    r"|poll\.interval|header\.converter|extended\.headers|((key|value)\.)?converter(?!\.schemas)"
)
"""Names of Debezium's properties that `capture` sets itself."""


def _check_name(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", text):
        raise ValueError("small letters, digits and _, at most 41, a letter first")
    return text


def _check_url(text: str) -> str:
    try:
        if make_url(text).database:
            return text
    except (ArgumentError, ValueError):
        pass
    raise ValueError("a URL with a database, such as postgresql://me:env:PASSWORD@host:5432/shop")


def _check_table(text: str) -> str:
    if "." not in text.strip("."):
        raise ValueError(f"SCHEMA.TABLE, such as public.{text}")
    return text


def _check_property(key: str) -> str:
    if OWNED.match(key):
        raise ValueError("a property that capture does not set itself")
    return key


Pattern = Annotated[str, AfterValidator(_check_table)]


class CaptureSettings(Strict):
    """The capture of one database."""

    name: Annotated[str, AfterValidator(_check_name)] = Field(
        description="Begins the topics' names, and is that of the slot and of the publication.",
    )
    source: Annotated[str, AfterValidator(_check_url)] = Field(
        description="The database, such as `postgresql://me:env:PASSWORD@host:5432/shop`;"
        " `env:NAME` stands for a variable's value."
    )
    tables: list[Pattern] = Field(
        min_length=1,
        description="Patterns of SCHEMA.TABLE (DATABASE.TABLE in MariaDB), such as `public.*`. A"
        " new table that matches is captured from then on.",
    )
    except_tables: list[Pattern] = Field(
        default_factory=list, alias="except", description="Patterns of tables that are left out."
    )
    signals: Pattern = Field(
        description="The table by which new tables are read; it is made where it does not exist."
    )
    landing: str = Field(
        default="",
        description="The folder of the files, or its URL in an object store: `s3a://`, `abfss://`"
        " or `gs://`; by default `name` below the target's landing root.",
    )
    state: str = Field(
        default="",
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
    max_wal: ByteSize = Field(
        default=ByteSize(10**10),
        description="`status` has an alarm where the database keeps more log.",
    )
    debezium: dict[Annotated[str, AfterValidator(_check_property)], str | int | bool] = Field(
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


def load_capture(conf: Path, target: Target, root: str | None) -> CaptureSettings:
    """The settings in conf/capture.yml, with the places where they write to.

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
    given = settings.model_dump(include={"landing", "state"} if root is None else set())
    landing = given.get("landing") or settings.name
    if "://" not in landing and not Path(landing).is_absolute():
        landing = f"{target.landing}/{landing}"
    here = target.root if target.root and "://" not in target.root else conf.absolute().parent
    state = Path(given.get("state") or f"{here}/capture/{settings.name}").expanduser().absolute()
    return settings.model_copy(update={"landing": landing, "state": str(state)})
