"""What `conf/capture.yml` says: which tables of which database are captured, and where to."""

import re
from collections.abc import Callable, Mapping
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
    r"|signal\.|schema\.history\.internal|snapshot\.(mode$|delay)|heartbeat\.|read\.only"
    r"|max\.batch\.size|poll\.interval|header\.converter|extended\.headers"
    r"|((key|value)\.)?converter(?!s|\.schemas)"
)
"""How the names of Debezium's properties begin that `capture` sets itself."""


def _must(is_right: Callable[[str], object], expected: str) -> AfterValidator:
    """The check of a text, which is expected to be that."""

    def check(text: str) -> str:
        if not is_right(text):
            raise ValueError(expected)
        return text

    return AfterValidator(check)


def _names_database(text: str) -> bool:
    try:
        return bool(make_url(text).database)
    except (ArgumentError, ValueError):
        return False


_NAME, _URL = "small letters, digits and _, at most 41, a letter first", "a URL with a database,"
Name = Annotated[str, _must(re.compile(r"[a-z][a-z0-9_]{0,40}").fullmatch, _NAME)]
Source = Annotated[str, _must(_names_database, f"{_URL} as postgresql://me:env:PW@host/shop")]
Pattern = Annotated[str, _must(lambda name: "." in name.strip("."), "SCHEMA.TABLE, as public.*")]
Property = Annotated[
    str, _must(lambda key: not OWNED.match(key), "a property that capture does not set itself")
]


class CaptureSettings(Strict):
    """The capture of one database; docs/guides/capture.md says what each key is."""

    name: Name
    source: Source
    tables: list[Pattern] = Field(min_length=1)
    except_tables: list[Pattern] = Field(default_factory=list, alias="except")
    signals: Pattern
    landing: str = ""
    state: str = ""
    snapshot_mode: Literal["initial", "no_data"] = "initial"
    file_seconds: float = Field(default=2.0, ge=0.1, le=5)
    file_records: int = Field(default=4096, ge=1, le=100_000)
    jars: str | None = None
    memory: str = Field(default="512m", pattern=MEMORY)
    max_lag: Duration = "10 minutes"
    max_wal: ByteSize = ByteSize(10**10)
    debezium: Mapping[Property, str | int | bool] = {}

    @property
    def url(self) -> URL:
        """The source's URL, with the names of secrets in place of their values."""
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
    if "://" not in landing:
        landing = str(Path(landing).expanduser())
        landing = landing if Path(landing).is_absolute() else f"{target.landing}/{landing}"
    here = target.root if target.root and "://" not in target.root else conf.absolute().parent
    state = Path(given.get("state") or f"{here}/capture/{settings.name}").expanduser().absolute()
    return settings.model_copy(update={"landing": landing, "state": str(state)})
