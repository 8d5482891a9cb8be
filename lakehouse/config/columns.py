"""What a table's YAML says of a column."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_OF_SOURCE = "db|schema|table|name|connector|ts_ms|ts_us|ts_ns|file|gtid|server_id"
ROUTED = "__dbz__physicalTableIdentifier"
"""What Debezium's topic router adds to a record's key: the table that the record came from."""
ORIGIN = f"^(source\\.({_OF_SOURCE})|{ROUTED})$"


def _word(value: object) -> object:
    """YAML reads `null` as no value."""
    return "null" if value is None else value


def _listed(value: object) -> object:
    """One name is a list of one."""
    return [value] if isinstance(value, str) else value


OldNames = Annotated[list[str], BeforeValidator(_listed, json_schema_input_type=str | list[str])]
Infinity = Annotated[Literal["null", "clamp"] | None, BeforeValidator(_word)]


class Column(BaseModel):
    """A declared column: its Spark SQL type and how it is treated."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    """A column that silver found in the source: its type grows with the source, and only so.

    Never written in YAML. A declared column's values are converted to its type; a learned one's
    must be of its kind.
    """


def _column(value: object) -> object:
    if isinstance(value, dict) and "from" in value:
        return {"type": "string", **value}
    return {"type": value} if isinstance(value, str) else value


ColumnOrType = Annotated[Column, BeforeValidator(_column, json_schema_input_type=str | Column)]
