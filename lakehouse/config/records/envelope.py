"""Where the parts of a change stand in a record of format `rows`: the block `envelope`."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from lakehouse.config.strict import Strict

ITSELF = "."
"""In `row`: the record itself, where it has none of the other members."""

EVERY_VALUE = "*"
"""In `deletes`: any value but null."""

NULLS = ("", "\\n", "null")
"""Texts, in small letters, by which files without types write a null."""

FLAGS = {
    "true": ("true", "t", "yes", "y", "1"),
    "false": ("false", "f", "no", "n", "0"),
}
"""How a flag is written, in small letters."""


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


def flag_of(text: str) -> str:
    """`true` or `false` for what a flag is written as, else the text."""
    folded = text.strip().lower()
    return next((flag for flag, written in FLAGS.items() if folded in written), text)


def is_null_text(text: str) -> bool:
    """Whether a text is how a file without types writes a null."""
    return text.strip().lower() in NULLS


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

    @property
    def has_flag(self) -> bool:
        """Whether `operation` is a flag: all values that are named are true or false."""
        named = [*self.deletes, *self.truncates, *self.upserts]
        return bool(self.deletes) and FLAGS.keys() >= {*named}

    def read_operation(self, value: object) -> str | None:
        """A value of `operation` as it is compared; of a flag or a time, null texts are null."""
        text = None if value is None else value_text(value)
        if text is None or ((self.has_flag or EVERY_VALUE in self.deletes) and is_null_text(text)):
            return None
        return flag_of(text) if self.has_flag else text
