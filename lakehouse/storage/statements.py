"""SQL statements over a DataFrame with a plan of any depth, and tables that follow others by them.

Followers are what gold publishes and the targets of `auto_cdc`, for any reader. Each of their
commits notes in its `userMetadata` what the table shows since. A MERGE changes only rows that
differ, so repeating one changes nothing.
"""

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage.names import agree_on, literal, quote
from lakehouse.words import EXACT_TIMES

ROWS = "{rows}"
LIVE = "_live"
"""The column of a follower's rows that says whether the follower is to have the row."""
_NEWEST_COMMITS = 20
NOTE = "spark.databricks.delta.commitInfo.userMetadata"
"""Spark's setting for a commit's `userMetadata`; sessions of serverless compute refuse it."""
_EXACT_TIMES = f"map({', '.join(literal(text) for pair in EXACT_TIMES.items() for text in pair)})"


def render_insert(columns: Iterable[str]) -> str:
    """`INSERT *` of a MERGE from the source `s`; Delta's star takes no name with a backtick."""
    names = [quote(column) for column in columns]
    return f"INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"


def render_update(columns: Iterable[str]) -> str:
    """`UPDATE SET *` of a MERGE into `t` from the source `s`, for the same reason."""
    names = [quote(column) for column in columns]
    return f"UPDATE SET {', '.join(f't.{name} = s.{name}' for name in names)}"


def render_equal(one: str, other: str, type: T.DataType) -> str:
    """SQL of whether two values are the same: null equals null, and a map equals any order of it.

    Spark compares neither maps nor variants. Of a map its sorted entries are compared; what has a
    map or a variant within is compared as JSON.
    """
    if isinstance(type, T.MapType) and not _holds_incomparable(type.valueType):
        one, other = (f"array_sort(map_entries({value}))" for value in (one, other))
    elif isinstance(type, T.VariantType):
        one, other = (f"to_json({value}, {_EXACT_TIMES})" for value in (one, other))
    elif _holds_incomparable(type):
        wrapped = (f"named_struct('value', {value})" for value in (one, other))
        one, other = (f"to_json({value}, {_EXACT_TIMES})" for value in wrapped)
    return f"{one} <=> {other}"


def _holds_incomparable(type: T.DataType) -> bool:
    """Whether a type is, or has within, a map or a variant."""
    if isinstance(type, T.StructType):
        return any(_holds_incomparable(field.dataType) for field in type.fields)
    if isinstance(type, T.ArrayType):
        return _holds_incomparable(type.elementType)
    return isinstance(type, T.MapType | T.VariantType)


def execute_with_rows(spark: SparkSession, text: str, rows: DataFrame) -> DataFrame:
    """Runs a statement in which `{rows}` stands for `rows`, and returns its result.

    The rows become a temporary view with a unique name: as an argument of `spark.sql`, a deep plan
    exceeds a limit of Spark Connect's client.
    """
    view = f"_rows_{uuid.uuid4().hex}"
    rows.createOrReplaceTempView(view)
    try:
        return spark.sql(text.replace(ROWS, quote(view)))
    finally:
        spark.catalog.dropTempView(view)


@contextmanager
def apply_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Sets the session's settings during the block; those that it refuses are left out."""
    applied = []
    for name, value in settings.items():
        with suppress(*SPARK_FAILURES):
            spark.conf.set(name, value)
            applied.append(name)
    try:
        yield
    finally:
        for name in applied:
            spark.conf.unset(name)


def note_commits(spark: SparkSession, text: str) -> AbstractContextManager[None]:
    """Adds a text to the `userMetadata` of commits in the block, if the session allows it."""
    return apply_settings(spark, {NOTE: text})


@dataclass(frozen=True)
class Follower:
    """A table that follows others.

    Attributes:
        spark: the session.
        name: the SQL name.
        identity: the columns that identify a row.
        nullable: those of them that may be null.
    """

    spark: SparkSession
    name: str
    identity: Sequence[str]
    nullable: Collection[str] = ()

    def read_notes(self) -> list[str]:
        """The notes of the newest commits, the newest first."""
        commits = self.spark.sql(f"DESCRIBE HISTORY {self.name} LIMIT {_NEWEST_COMMITS}")
        rows = commits.where("userMetadata IS NOT NULL").select("version", "userMetadata")
        return [note for _, note in sorted(map(tuple, rows.collect()), reverse=True)]

    def merge_rows(
        self, rows: DataFrame, note: str, compared: bool = True, every: bool = False
    ) -> int:
        """Writes the live rows, and removes the others, in one commit.

        Args:
            rows: the columns to write, and `LIVE`.
            note: what the table shows then.
            compared: whether rows that the table has already are left alone.
            every: whether rows of the table that are not among these go.

        Returns:
            How many rows changed.
        """
        fields = [field for field in rows.schema.fields if field.name != LIVE]
        others = [field for field in fields if field.name not in self.identity]
        pairs = [(f"t.{quote(f.name)}", f"s.{quote(f.name)}", f.dataType) for f in others]
        same = " AND ".join(render_equal(*pair) for pair in pairs)
        differ = f" AND NOT ({same})" if compared else ""
        update = f" WHEN MATCHED{differ} THEN {render_update(f.name for f in others)}"
        text = (
            f"MERGE INTO {self.name} t USING {{rows}} s"
            f" ON {agree_on('t', 's', self.identity, self.nullable)}"
            f" WHEN MATCHED AND NOT s.{LIVE} THEN DELETE{update if others else ''}"
            f" WHEN NOT MATCHED AND s.{LIVE} THEN {render_insert(f.name for f in fields)}"
            f"{' WHEN NOT MATCHED BY SOURCE THEN DELETE' if every else ''}"
        )
        with note_commits(self.spark, note):
            result = execute_with_rows(self.spark, text, rows).collect()[0]
        return int(result["num_affected_rows"])
