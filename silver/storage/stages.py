"""Cuts in Spark's plans.

Spark generates Java code for each stage, with the plan's numbers in it, such as a batch's. With
another number the code is compiled again, and the JVM optimizes it again, which takes longer than
the batch itself. `end_stage` keeps such numbers in small stages of their own, so that the code of
the large ones, which decode and compact, is the same for all batches.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.storage.names import quote

_MORE_TASKS_THAN_ANY = 10_000
_ROW = "_whole_row"


def end_stage(rows: DataFrame) -> DataFrame:
    """Ends the generated code of the stage, so that the next steps have their own; rows stay as is.

    A coalesce to more tasks than there are does this without moving rows.
    """
    return rows.coalesce(_MORE_TASKS_THAN_ANY)


def add_plan_barrier(rows: DataFrame) -> DataFrame:
    """Keeps Spark's optimizer from pushing filters below the rows, which stay as they are.

    A decoded record's reason is computed from all its columns. For a filter or join on it, the
    optimizer derives constraints for every subset of the columns, each by its name or by its
    expression: with some twenty columns it never ends. It derives none across an `unpivot`, which
    makes one row of one row here; and columns that come out of `inline` are no expressions.
    """
    one = rows.select(F.struct(*[F.col(quote(name)) for name in rows.columns]).alias(_ROW))
    return one.unpivot([], _ROW, "_name", _ROW).select(F.inline(F.array(_ROW)))
