"""Exact numbers from Debezium's encodings, as plain decimal text of any length.

`numeric(p,s)` comes as base64 of a big-endian two's complement integer whose scale is told elsewhere,
`numeric` without a scale as `{"scale":n,"value":base64}`. Both are wider than any Spark number, so the way
leads over text: up to 8 bytes through a bigint, above that by long multiplication in base 10^9.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

_LONGEST = 1024
_WIDEST_SCALE = 16384
_CHUNK = 6
_LIMB = 1_000_000_000
_BASE64 = r"\A[A-Za-z0-9+/]+={0,2}\z"
_VARIABLE = r'\A\{"scale":-?[0-9]+,"value":"[A-Za-z0-9+/]*={0,2}"\}\z'


def scaled_text(base64: Column, scale: int | Column) -> Column:
    """The number in base64 with its decimal point put in; null when it is not base64 or over 1 kB."""
    return _with_point(integer_text(F.try_to_binary(base64, F.lit("base64"))), scale)


def variable_text(json: Column) -> Column:
    """The number in `{"scale":n,"value":base64}` with its decimal point put in, else null."""
    parts = F.from_json(json, "scale INT, value STRING")
    sane = F.abs(parts["scale"]) <= _WIDEST_SCALE
    return F.when(sane, scaled_text(parts["value"], parts["scale"]))


def is_base64(text: Column) -> Column:
    """Whether text can be base64 of a number; `1.5`, `-5` and `NaN` cannot."""
    return text.rlike(_BASE64) & (F.length(text) % 4 == 0)


def is_variable(text: Column) -> Column:
    """Whether text is exactly a number of variable scale as Debezium writes it."""
    return text.startswith('{"scale":') & text.rlike(_VARIABLE)


def integer_text(binary: Column) -> Column:
    """A big-endian two's complement integer as decimal text; null when empty or over 1 kB."""
    digits, size = F.hex(binary), F.octet_length(binary)
    negative = F.substring(digits, 1, 1) >= "8"
    small = F.conv(F.lpad(digits, 16, "0"), 16, 10)
    small_negative = F.conv(F.lpad(digits, 16, "F"), 16, -10)
    large = _long_text(digits, negative)
    short = (size > 0) & (size <= 8)
    return (
        F.when(short & ~negative, small)
        .when(short, small_negative)
        .when((size > 8) & (size <= _LONGEST), large)
    )


def _with_point(integer: Column, scale: int | Column) -> Column:
    sign = F.when(integer.startswith("-"), F.lit("-")).otherwise(F.lit(""))
    digits = F.ltrim(integer, F.lit("-"))
    places = F.lit(scale) if isinstance(scale, int) else scale
    padded = F.lpad(digits, F.greatest(F.length(digits), places + 1), F.lit("0"))
    whole = F.substr(padded, F.lit(1), F.length(padded) - places)
    fraction = F.substr(padded, F.length(padded) - places + 1)
    return (
        F.when(places == 0, integer)
        .when(places > 0, F.concat(sign, whole, F.lit("."), fraction))
        .otherwise(F.concat(integer, F.repeat(F.lit("0"), -places)))
    )


def _long_text(digits: Column, negative: Column) -> Column:
    flipped = F.translate(digits, "0123456789ABCDEF", "FEDCBA9876543210")
    magnitude = F.when(negative, flipped).otherwise(digits)
    one_more = F.when(negative, F.array(_step(F.lit(1), F.lit(1)))).otherwise(F.array())
    limbs = F.aggregate(
        F.concat(_steps(magnitude), one_more),
        F.array().cast("array<bigint>"),
        lambda held, step: _multiplied(held, step),
    )
    joined = F.array_join(
        F.transform(F.reverse(limbs), lambda limb: F.lpad(limb.cast("string"), 9, "0")), ""
    )
    sign = F.when(negative, F.lit("-")).otherwise(F.lit(""))
    return F.concat(sign, F.regexp_replace(joined, r"\A0+(?=.)", ""))


def _steps(magnitude: Column) -> Column:
    missing = F.pmod(-F.length(magnitude), F.lit(_CHUNK))
    padded = F.concat(F.repeat(F.lit("0"), missing), magnitude)
    starts = F.sequence(F.lit(1), F.length(padded) - (_CHUNK - 1), F.lit(_CHUNK))
    return F.transform(
        starts,
        lambda at: _step(
            F.lit(16**_CHUNK), F.conv(F.substr(padded, at, F.lit(_CHUNK)), 16, 10).cast("bigint")
        ),
    )


def _step(factor: Column, addend: Column) -> Column:
    return F.struct(factor.cast("bigint").alias("factor"), addend.cast("bigint").alias("addend"))


def _multiplied(limbs: Column, step: Column) -> Column:
    start = F.struct(step["addend"].alias("carry"), F.array().cast("array<bigint>").alias("limbs"))
    return F.aggregate(
        limbs,
        start,
        lambda done, limb: _carried(done, limb * step["factor"] + done["carry"]),
        lambda done: F.when(
            done["carry"] > 0, F.array_append(done["limbs"], done["carry"])
        ).otherwise(done["limbs"]),
    )


def _carried(done: Column, product: Column) -> Column:
    carry = F.call_function("div", product, F.lit(_LIMB)).cast("bigint")
    return F.struct(
        carry.alias("carry"), F.array_append(done["limbs"], product % _LIMB).alias("limbs")
    )
