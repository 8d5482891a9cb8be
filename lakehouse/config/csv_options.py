"""The options of a source's CSV files, named as in Spark; their numbers, and their headers."""

import codecs
import csv
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from lakehouse.config.strict import Strict

SEPARATORS = (",", ";", "\t", "|")
"""The separators that are tried if the options name none."""

_OF_SPARK = {"iso8859-1": "ISO-8859-1", "ascii": "US-ASCII", "utf-8": "UTF-8", "utf-8-sig": "UTF-8"}


def _known_encoding(name: str) -> str:
    """Spark's name of the encoding."""
    try:
        python_name = codecs.lookup(name).name
    except LookupError:
        raise ValueError("expected the name of an encoding such as ISO-8859-1") from None
    return _OF_SPARK.get(python_name, name)


Encoding = Annotated[str, AfterValidator(_known_encoding)]
Character = Annotated[str, Field(min_length=1, max_length=1)]
Separator = Annotated[
    str, Field(min_length=1), AfterValidator(lambda text: text.replace("\\t", "\t"))
]
OneOrNone = Annotated[str, Field(max_length=1)]


class Csv(Strict):
    """Options of Spark's CSV reader, and how numbers are written.

    What is not given of Spark's options is found out from each file.

    Without `header` the fields of a row are the table's `columns` in their order.
    """

    sep: Separator | None = Field(default=None, description="What separates the fields.")
    header: bool = Field(
        default=True,
        description="Whether the first line has the names. `false`: the fields are the table's"
        " `columns` in their order.",
    )
    quote: OneOrNone = Field(default='"', description="What quotes a field; empty for nothing.")
    escape: OneOrNone | None = Field(
        default=None, description="What escapes a quote inside a quoted field."
    )
    encoding: Encoding | None = Field(
        default=None, description="The encoding of the file, such as `ISO-8859-1`."
    )
    nullValue: str | None = Field(default=None, description="The text that means null.")
    emptyValue: str | None = Field(default=None, description="The text that means empty text.")
    comment: Character | None = Field(
        default=None, description="Lines that begin with this character are left out."
    )
    ignoreLeadingWhiteSpace: bool | None = Field(
        default=None, description="Whether spaces before a value are cut off."
    )
    ignoreTrailingWhiteSpace: bool | None = Field(
        default=None, description="Whether spaces after a value are cut off."
    )
    multiLine: bool = Field(default=True, description="Whether a quoted field may have line ends.")
    lineSep: Annotated[str, Field(min_length=1, max_length=2)] | None = Field(
        default=None, description="What separates the lines."
    )
    charToEscapeQuoteEscaping: Character | None = Field(
        default=None, description="What escapes the `escape` character."
    )
    unescapedQuoteHandling: (
        Literal[
            "STOP_AT_CLOSING_QUOTE", "BACK_TO_DELIMITER", "STOP_AT_DELIMITER", "SKIP_VALUE",
            "RAISE_ERROR",
        ]
        | None
    ) = Field(
        default=None, description="What Spark does with a quote that is not escaped."
    )  # fmt: skip
    maxColumns: Annotated[int, Field(gt=0)] | None = Field(
        default=None, description="Most fields of a line."
    )
    maxCharsPerColumn: int | None = Field(
        default=None, description="Most characters of a field; -1 for any number."
    )

    decimal_comma: bool = Field(
        default=False,
        description="Whether declared numbers have a comma before their decimals: `1234,50`.",
    )
    thousands: Literal[".", ",", " ", "'"] | None = Field(
        default=None,
        description="What may stand between the thousands of declared numbers: `.` for `1.234,50`.",
    )

    @property
    def point(self) -> str:
        """What stands before the decimals of numbers."""
        return "," if self.decimal_comma else "."

    def given_options(self) -> dict[str, str]:
        """The options of Spark that are set, as texts."""
        options = self.model_dump(exclude_none=True, exclude={"decimal_comma", "thousands"})
        return {
            name: str(v).lower() if isinstance(v, bool) else str(v) for name, v in options.items()
        }


def split_cells(header: str, sep: str, quote: str) -> list[str]:
    """The cells of a header line."""
    if len(sep) > 1:
        return [cell.strip(quote) for cell in header.split(sep)]
    if not quote:
        return header.split(sep)
    reader = csv.reader([header], delimiter=sep, quotechar=quote)
    return next(reader, [])


def has_blanks(cells: Sequence[str]) -> bool:
    """Whether blanks follow the separators, which are then no part of values either."""
    return len(cells) > 1 and all(cell[:1] == " " for cell in cells[1:])


def unnamed_column(at: int) -> str:
    """The name of a column that has none in the header."""
    return f"_c{at}"


def clean_name(cell: str, quote: str) -> str:
    """A name without its quotes, and without blanks inside and outside of them."""
    name = cell.strip()
    quoted = bool(quote) and len(name) > 1 and name[0] == name[-1] == quote
    return name[1:-1].replace(quote * 2, quote).strip() if quoted else name
