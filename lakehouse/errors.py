"""What can go wrong, one class per decision a caller can make.

LakehouseError                 catch this to catch everything the lakehouse raises on purpose
├── ConfigurationError         a file or option is wrong: correct it, run again (exit 2)
├── ManyConfigurationErrors    the same, several at once (exit 2)
├── LakeNotWritable            read-only, or the disk is full: change that, run again (exit 1)
├── Interrupted                Ctrl-C: run again, nothing is lost (exit 130)
├── LakeOutdated               another version wrote the lake: remove silver and gold (exit 2)
├── SourceUnreachable          the source database does not answer: make it reachable (exit 3)
├── ServerUnreachable          a Spark Connect server does not answer: start it (exit 3)
├── SparkUnavailable           Java or a package is missing, or Java ended: its text says (exit 2)
├── QueryRefused               Spark does not understand the query: correct it (exit 2)
├── QueryFailed                Spark could not carry the query out (exit 1)
├── TableFailed                one table failed: carry on with the others (exit 1)
│   ├── TruncateRefused        the source truncated a table that says on_truncate: fail
│   ├── SourceDiffers          gold is not what the source holds: look into the rows it names
│   ├── SchemaChangeRefused    the source's columns changed and schema_changes says fail
│   ├── ConfigurationDrift     the YAML contradicts what the table was built with: rebuild it
│   ├── AccountMismatch        the outcomes of a run do not add up to its records: a defect
│   ├── TableLocked            another run is writing this table: try again later
│   ├── EraseIncomplete        something of an erased key is left: see where, erase again
│   └── LawsBroken             what is stored is not what the changes give: rebuild the table
├── UpgradeConflict            a person has to choose between two changes of a file (exit 1)
├── ExpectationsFailed         critical expectations do not hold in gold (exit 1)
└── ManyTablesFailed           raised once, at the end, naming every failed table
                               (exit 1; 3 where all of them could not reach their source)
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lakehouse.words import render_count

_EXPLAIN = "do: `lakehouse explain {} --key …` shows why"


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
        self.errors = tuple(errors)
        super().__init__("\n".join(str(error) for error in errors))


class LakeNotWritable(LakehouseError):
    """Nothing can be written where the lake lies."""

    def __init__(self, lake: str, found: str, action: str) -> None:
        super().__init__(f"{lake}: cannot be written\n  found:    {found}\n  do:       {action}")


class Interrupted(LakehouseError):
    """Ctrl-C ended the command before it was done."""

    exit_code = 130

    def __init__(self, step: str | None) -> None:
        during = f" during {step}" if step else ""
        super().__init__(
            f"interrupted{during}\n"
            "  found:    Ctrl-C; every table is as its last commit left it\n"
            "  do:       run the same command again: nothing is lost and nothing is doubled"
        )


class SourceUnreachable(LakehouseError):
    """The source database cannot be reached, or refuses the login."""

    exit_code = 3

    def __init__(
        self,
        what: str,
        found: str,
        action: str = "check the URL, the rights and the name, and whether the server runs",
    ) -> None:
        super().__init__(f"{what}: cannot be reached\n  found:    {found}\n  do:       {action}")


class SparkUnavailable(LakehouseError):
    """No Spark session, or no jar, can be had here; the message says what is missing."""

    exit_code = 2

    def __init__(self, found: str, action: str, what: str = "Spark session") -> None:
        super().__init__(f"no {what}\n  found:    {found}\n  do:       {action}")


class ServerUnreachable(SparkUnavailable):
    """The Spark Connect server does not answer."""

    exit_code = 3


class QueryRefused(LakehouseError):
    """A query that Spark does not understand, or that names what is not there."""

    exit_code = 2


class QueryFailed(LakehouseError):
    """A query that Spark understood and could not carry out."""


class TableFailed(LakehouseError):
    """One table could not be brought up to date; the others can.

    `unreachable` says that the reason is a source that does not answer.
    """

    def __init__(self, table: str, message: str, unreachable: bool = False) -> None:
        self.table, self.message, self.unreachable = table, message, unreachable
        super().__init__(f"{table}: {message}")


class TruncateRefused(TableFailed):
    """The source truncated a table whose configuration refuses that."""

    def __init__(self, table: str) -> None:
        super().__init__(
            table,
            "the source truncated it, and on_truncate is fail; "
            "set on_truncate to apply or ignore and run again",
        )


class SchemaChangeRefused(TableFailed):
    """The source changed a table's columns in a way that its configuration refuses."""

    def __init__(self, table: str, changes: Sequence[str], kinds: Sequence[str]) -> None:
        options = ", ".join(f"schema_changes.{kind}" for kind in kinds)
        super().__init__(
            table,
            f"its source changed: {'; '.join(changes)}; {options} is fail: nothing was written; "
            f"take it back at the source, or set {options} to another value and run again",
        )


class LockLost(LakehouseError):
    """A run could not say for minutes that it goes on, and another took its tables."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"run {run_id}: stopped\n"
            "  found:    another run writes its tables: the locks were not renewed in time\n"
            "  do:       nothing, if that run goes on; else run the same command again"
        )


class LakeOutdated(LakehouseError):
    """A lake whose silver tables an older version of the lakehouse has written."""

    exit_code = 2

    def __init__(self, silver: str, gold: str) -> None:
        super().__init__(
            f"an older version wrote the tables of {silver}, and this one lays them out in another "
            f"way. Bronze is complete: remove {silver} and {gold}, then lakehouse run makes both "
            "anew from it. Or begin in a new place: lakehouse run --root DIR"
        )


class ConfigurationDrift(TableFailed):
    """A table's configuration contradicts what the table was built with."""

    def __init__(self, table: str, differences: Sequence[str]) -> None:
        super().__init__(
            table,
            f"its YAML does not fit the tables it has: {'; '.join(differences)}; "
            f"put it back, or build the table anew: lakehouse rebuild {table}",
        )


class AccountMismatch(TableFailed):
    """The outcomes of a run's records do not add up to the records."""

    def __init__(self, table: str, records: int, counts: Mapping[str, int]) -> None:
        said = ", ".join(f"{name} {n}" for name, n in sorted(counts.items()))
        super().__init__(
            table,
            f"{records} records are accounted for as {said or 'nothing'}, which is "
            f"{sum(counts.values())}; please report it, and compare with lakehouse verify {table}",
        )


class TableLocked(TableFailed):
    """Another run is writing the table."""

    def __init__(self, table: str, holder: str) -> None:
        super().__init__(table, f"another run is writing this table ({holder}); try again later")


class LawsBroken(TableFailed):
    """A table breaks laws that hold for every table."""

    def __init__(self, table: str, laws: Sequence[str]) -> None:
        self.laws = tuple(laws)
        super().__init__(
            table,
            f"{len(laws)} broken: {'; '.join(laws)}\n    {_EXPLAIN.format(table)}",
        )


class UpgradeConflict(LakehouseError):
    """An upgrade changes lines of a project's files that their owner has changed too."""

    def __init__(self, paths: Sequence[str]) -> None:
        named = "\n".join(f"  {path}" for path in paths)
        action = "choose between the two at each <<<<<<<"
        super().__init__(f"your changes and the new version's meet in\n{named}\n  do: {action}")


class ExpectationsFailed(LakehouseError):
    """Critical expectations that do not hold for what gold shows."""

    def __init__(self, expectations: Sequence[str]) -> None:
        self.expectations = tuple(expectations)
        named = "\n".join(f"  {expectation}" for expectation in expectations)
        super().__init__(f"{len(expectations)} critical expectations failed:\n{named}")


class SourceDiffers(TableFailed):
    """A table of gold does not hold what its source holds."""

    def __init__(self, table: str, rows: int) -> None:
        self.rows = rows
        super().__init__(
            table,
            f"{render_count(rows, 'row')} {'differs' if rows == 1 else 'differ'} from the source"
            f"\n    {_EXPLAIN.format(table)}",
        )


class EraseIncomplete(TableFailed):
    """Something of an erased key is still there."""

    def __init__(self, table: str, left: Sequence[str]) -> None:
        self.left = tuple(left)
        named = "\n".join(f"    {place}" for place in left)
        super().__init__(
            table,
            f"something of the key is left in\n{named}\n  do: repeat the command; what is not of"
            " the lake's tables (a report, a log) delete by hand",
        )


class ManyTablesFailed(LakehouseError):
    """Some tables failed, the others are done (3 if every failure is a source out of reach)."""

    def __init__(self, failures: Sequence[TableFailed]) -> None:
        self.failures = tuple(failures)
        if failures and all(failure.unreachable for failure in failures):
            self.exit_code = SourceUnreachable.exit_code
        named = "\n".join(f"  {failure}" for failure in failures)
        super().__init__(f"{len(failures)} failed, the others are done:\n{named}")
