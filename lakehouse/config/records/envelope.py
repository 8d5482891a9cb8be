"""Where the parts of a change stand in a record of format `rows`: the block `envelope`."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from lakehouse.config.strict import Strict

ITSELF = "."
"""In `row`: the record itself, where it has none of the other members."""


def _list_texts(value: object) -> object:
    return [value] if isinstance(value, str) else value


Texts: TypeAlias = Annotated[
    list[str], BeforeValidator(_list_texts, json_schema_input_type=str | list[str])
]


Values: TypeAlias = Annotated[
    list[str],
    BeforeValidator(
        lambda values: [*map(value_text, values)] if isinstance(values, list) else values,
        json_schema_input_type=list[str | int | bool],
    ),
]


def value_text(value: object) -> str:
    """A plain value of JSON or YAML as it is compared: `true` for true."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class RecordParts(Strict):
    """The parts of a change in a record; names may be paths, as `metadata.operation`.

    With `row`, `where`, `sequence_by` and `time_column` name members of the record around the row;
    a name that the record lacks is the row's.
    """

    row: Texts = Field(
        default_factory=list,
        description="The member with the row, or with a list of rows, each a change. Of several"
        " names the first that is there counts; `.` is the record itself.",
    )
    old: str | None = Field(
        default=None,
        description="The member with columns before the change: a changed key is a move, a delete"
        " without a row has its key there.",
    )
    operation: Texts = Field(
        default_factory=list,
        description="The member that says what happened; of several the first that is there.",
    )
    deletes: Values = Field(
        default_factory=list,
        description="Values of `operation` that are deletes; `*` is any value but null.",
    )
    truncates: Values = Field(
        default_factory=list, description="Values of `operation` that remove every row."
    )
    upserts: Values = Field(
        default_factory=list,
        description="Values of `operation` that are upserts: any other one is a dead letter."
        " Without it every value but those above is an upsert.",
    )
    keys: str | None = Field(
        default=None, description="The member with the names of the key's columns, for `init`."
    )
    where: str | None = Field(default=None, description="As `where` of the source, beside it.")
    sequence_by: Texts = Field(
        default_factory=list, description="What orders the changes where `sequence_by` does not."
    )
    time_column: str | None = Field(
        default=None, description="As `time_column` of the source, which counts more."
    )
    leave_out: list[str] = Field(
        default_factory=list,
        description="Members of a row that are no columns; `*` stands for any letters.",
    )
    removed: str | None = Field(
        default=None, description="The member with the names of columns that are null from then on."
    )
    missing: str | None = Field(
        default=None,
        description="The end of names: where `price_isMissing` is true, the row lacks `price`.",
    )
    complete: bool = Field(
        default=False,
        description="Whether a column that a row of the first name lacks is null. Else it is as it"
        " was before.",
    )
    values: Literal["plain", "dynamodb", "mongodb"] = Field(
        default="plain",
        description="How values are written: `dynamodb` with a type each, `mongodb` in Extended"
        " JSON.",
    )
