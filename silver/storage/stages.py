"""Where a plan is cut, so that what stands on one side of the cut does not reach the other.

`apart` keeps what differs from batch to batch out of the Java that Spark writes for a stage.

The text of a stage holds the plan's numbers, such as a batch's. With another number it is another
text: compiled anew, and run without what the JVM has learned of it, which costs a batch more than
its work. So numbers stand in small stages, apart from the large ones that decode and compact.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.storage.names import quote

_MORE_TASKS_THAN_ANY = 10_000
_ROW = "_whole_row"


def end_stage(rows: DataFrame) -> DataFrame:
    """Ends Spark's stage, so that what follows is a stage of its own; the rows stay as they are.

    A coalesce to more tasks than there are moves no row, and ends Spark's stage.
    """
    return rows.coalesce(_MORE_TASKS_THAN_ANY)


def add_plan_barrier(rows: DataFrame) -> DataFrame:
    """Keeps Spark's optimizer from pushing filters below the rows, which stay as they are.

    A decoded record's reason is a condition of all its columns. Of a filter of it, or of a join,
    Spark's optimizer asks what holds of the columns, and answers it for every subset of them, each
    by its name or as the expression that makes it: with some twenty of them it never ends. It does
    not ask beyond an `unpivot`, which makes one row of one row here; and columns that come out of
    `inline` are no expressions.
    """
    one = rows.select(F.struct(*[F.col(quote(name)) for name in rows.columns]).alias(_ROW))
    return one.unpivot([], _ROW, "_name", _ROW).select(F.inline(F.array(_ROW)))
