"""What can go wrong, one class per decision a caller can make.

LakehouseError                 catch this to catch everything the lakehouse raises on purpose
├── ConfigurationError         a file or option is wrong: mend it and run again (exit 2)
├── ManyConfigurationErrors    the same, several at once (exit 2)
├── LakeNotWritable            read-only, or the disk is full: mend that and run again (exit 1)
├── SourceUnreachable          the source database does not answer: mend that (exit 1)
├── SparkUnavailable           no Java, no package, no session: mend the machine (exit 2)
├── QueryRefused               Spark does not understand the query: mend it (exit 2)
├── QueryFailed                Spark could not carry the query out (exit 1)
├── TableFailed                one table failed: carry on with the others (exit 1)
│   ├── SourceDataLoss         records are gone at the source: take a new snapshot
│   ├── TruncateRefused        the source truncated a table that says on_truncate: fail
│   └── TableLocked            another run is writing this table: try again later
└── ManyTablesFailed           raised once, at the end, naming every failed table (exit 1)
"""

from collections.abc import Sequence
from typing import NamedTuple


class LakehouseError(Exception):
    """Root of the tree; `str()` of it is one block of text for a person."""

    exit_code = 1


class Problem(NamedTuple):
    """What is wrong within one file: dotted key, what stands there, what should, what to do."""

    key: str
    found: str
    expected: str
    action: str


class ConfigurationError(LakehouseError):
    """A key of a file, or an option of a command, that cannot be used as it is written."""

    exit_code = 2

    def __init__(self, file: str, key: str, found: str, expected: str, action: str) -> None:
        """Take the file (or "command line"), the dotted key and three phrases for a person."""
        self.file, self.key = file, key
        self.found, self.expected, self.action = found, expected, action
        super().__init__(
            f"{file}: {key}\n  found:    {found}\n  expected: {expected}\n  do:       {action}"
        )


class ManyConfigurationErrors(LakehouseError):
    """Every configuration error of every file, reported together."""

    exit_code = 2

    def __init__(self, errors: Sequence[ConfigurationError]) -> None:
        """Take the errors in the order in which they are to be shown."""
        self.errors = tuple(errors)
        super().__init__("\n".join(str(error) for error in errors))


class LakeNotWritable(LakehouseError):
    """Nothing can be written where the lake lies."""

    def __init__(self, lake: str, found: str, action: str) -> None:
        """Take the lake's folder, what was found, and what to do about it."""
        super().__init__(f"{lake}: cannot be written\n  found:    {found}\n  do:       {action}")


class SourceUnreachable(LakehouseError):
    """The source database cannot be reached, or is not what it should be."""

    def __init__(self, what: str, found: str) -> None:
        """Take what was to be reached, and what was found."""
        super().__init__(
            f"{what}: cannot be written at the source\n  found:    {found}\n"
            "  do:       check the URL, the rights and the name (--signals), and the connector's "
            "signal.data.collection"
        )


class SparkUnavailable(LakehouseError):
    """No Spark session can be had here; the message says what is missing."""

    exit_code = 2

    def __init__(self, found: str, action: str) -> None:
        """Take what was found and what to do about it."""
        super().__init__(f"no Spark session\n  found:    {found}\n  do:       {action}")


class QueryRefused(LakehouseError):
    """A query that Spark does not understand, or that names what is not there."""

    exit_code = 2


class QueryFailed(LakehouseError):
    """A query that Spark understood and could not carry out."""


class TableFailed(LakehouseError):
    """One table could not be brought up to date; the others can."""

    def __init__(self, table: str, message: str) -> None:
        """Take the table's name and what happened, with what to do."""
        self.table, self.message = table, message
        super().__init__(f"{table}: {message}")


class SourceDataLoss(TableFailed):
    """Records can no longer be read from the source; what is there has been read."""

    def __init__(self, table: str, gone: str) -> None:
        """Take what is missing, with its bounds."""
        super().__init__(
            table,
            f"{gone}; take a new snapshot (`lakehouse rebootstrap {table}`), "
            "or set on_data_loss: continue",
        )


class TruncateRefused(TableFailed):
    """The source truncated a table whose configuration refuses that."""

    def __init__(self, table: str) -> None:
        """Take the table's name."""
        super().__init__(
            table,
            "the source truncated it, and on_truncate is fail; "
            "set on_truncate to apply or ignore and run again",
        )


class TableLocked(TableFailed):
    """Another run is writing the table."""

    def __init__(self, table: str, holder: str) -> None:
        """Take who holds the table, as far as it is known."""
        super().__init__(table, f"another run is writing this table ({holder}); try again later")


class ManyTablesFailed(LakehouseError):
    """The end of a run in which some tables failed and the others were done."""

    def __init__(self, failures: Sequence[TableFailed]) -> None:
        """Take every failure; each is named."""
        self.failures = tuple(failures)
        named = "\n".join(f"  {failure}" for failure in failures)
        super().__init__(f"{len(failures)} failed, the others are done:\n{named}")


def in_short(failure: Exception) -> str:
    """A failure's message without the query plan and the Java stack that Spark adds to it."""
    text = str(failure)
    for tail in ("; line ", ";\n", "\n\tat ", "\nJVM stacktrace"):
        text = text.split(tail)[0]
    return text[:2000]
