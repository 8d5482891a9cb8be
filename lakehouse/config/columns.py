"""The model of a column in a table's YAML."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from lakehouse.config.strict import Strict

_OF_SOURCE = "db|schema|table|name|connector|ts_ms|ts_us|ts_ns|file|gtid|server_id"
ROUTED = "__dbz__physicalTableIdentifier"
"""The field that Debezium's topic router adds to a record's key: the record's source table."""
ORIGIN = f"^(source\\.({_OF_SOURCE})|{ROUTED})$"


OldNames = Annotated[
    list[str],
    BeforeValidator(
        lambda value: [value] if isinstance(value, str) else value,
        json_schema_input_type=str | list[str],
    ),
]
Infinity = Annotated[
    Literal["null", "clamp"] | None,
    BeforeValidator(lambda value: "null" if value is None else value),
]
"""YAML parses the word `null` as no value."""


class Column(Strict):
    """A declared column: its Spark SQL type and how it is treated."""

    type: str = Field(description="The Spark SQL type. With `from` the default is `string`.")
    origin: str | None = Field(
        default=None,
        alias="from",
        pattern=ORIGIN,
        description="The part of a Debezium record that has the value, where the row has not:"
        " `source.db` and other members of the source block, or `__dbz__physicalTableIdentifier`"
        " of the record's key.",
    )
    renamed_from: OldNames = Field(
        default_factory=list,
        description="What the source called the column before, or a list of such names, the newest"
        " first. Records with the old name fill the column too.",
    )
    sensitive: bool = Field(
        default=False, description="Gold hashes the value or leaves it out, as the target says."
    )
    operational: bool = Field(
        default=False, description="A change of this column alone opens no version."
    )
    nullable: bool = Field(
        default=True,
        description="`false`: a row with null is a dead letter. `true`, written on a key column:"
        " null is a value of the key.",
    )
    infinity: Infinity = Field(
        default=None,
        description="What becomes of a date or timestamp outside of the years 1 to 9999, such as"
        " PostgreSQL's `infinity`: `null`, or `clamp` for the first or last moment of these years."
        " Without it the row is a dead letter.",
    )
    comment: str | None = Field(default=None, description="The column's comment in gold.")


class LearnedColumn(Column):
    """A column that silver found in the source; its type is widened when the source's is.

    Never written in YAML. Values are converted to the type of a declared column; values of a
    learned column must already be of its kind.
    """


def _to_column(value: object) -> object:
    if isinstance(value, dict) and "from" in value:
        return {"type": "string", **value}
    return {"type": value} if isinstance(value, str) else value


ColumnOrType = Annotated[Column, BeforeValidator(_to_column, json_schema_input_type=str | Column)]
