"""Exact numbers from Debezium's encodings, as plain decimal text of any length; all in SQL text.

`numeric(p,s)` comes as base64 of a big-endian two's complement integer whose scale is told
elsewhere, `numeric` without a scale as `{"scale":n,"value":base64}`. Both can be wider than any
Spark number, so the way leads over text: up to 8 bytes through a bigint, above by long
multiplication in base 10^9.
"""

from lakehouse.names import literal

_LONGEST = 1024
_WIDEST_SCALE = 16384
_CHUNK = 6
_LIMB = 1_000_000_000
_BASE64 = literal(r"\A[A-Za-z0-9+/]+={0,2}\z")
_VARIABLE = literal(r'\A\{"scale":-?[0-9]+,"value":"[A-Za-z0-9+/]*={0,2}"\}\z')


def scaled(base64: str, scale: int) -> str:
    """The number in base64 in the form 12345E-2, which casts to any number without loss.

    Null when it is no base64 or over 1 kB.
    """
    integer = integer_text(f"try_to_binary({base64}, 'base64')")
    return f"concat({integer}, 'E{-scale}')"


def scaled_text(base64: str, scale: str) -> str:
    """The number in base64 as people write it, 123.45; null when it is no base64 or over 1 kB."""
    integer = integer_text(f"try_to_binary({base64}, 'base64')")
    return _bound(integer, "whole", _with_point("whole", scale))


def variable_text(json: str) -> str:
    """The number in `{"scale":n,"value":base64}` as people write it, else null."""
    text = scaled_text("parts.value", "parts.scale")
    number = f"CASE WHEN abs(parts.scale) <= {_WIDEST_SCALE} THEN {text} END"
    return _bound(f"from_json({json}, 'scale INT, value STRING')", "parts", number)


def is_base64(text: str) -> str:
    """Whether text can be base64 of a number; `1.5`, `-5` and `NaN` cannot."""
    return f"(length({text}) % 4 = 0 AND {text} RLIKE {_BASE64})"


def is_variable(text: str) -> str:
    """Whether text is exactly a number of variable scale as Debezium writes it."""
    start = literal('{"scale":')
    return f"(startswith({text}, {start}) AND {text} RLIKE {_VARIABLE})"


def integer_text(binary: str) -> str:
    """A big-endian two's complement integer as decimal text; null when empty or over 1 kB."""
    digits, size = f"hex({binary})", f"octet_length({binary})"
    negative = f"substring({digits}, 1, 1) >= '8'"
    return (
        f"CASE WHEN {size} BETWEEN 1 AND 8 THEN "
        f"CASE WHEN {negative} THEN conv(lpad({digits}, 16, 'F'), 16, -10) "
        f"ELSE conv(lpad({digits}, 16, '0'), 16, 10) END "
        f"WHEN {size} BETWEEN 9 AND {_LONGEST} THEN {_bound(digits, 'digits', _long_text())} END"
    )


def _bound(value: str, name: str, expression: str) -> str:
    """An expression that names a value, so that the value is written and computed once."""
    return f"transform(array({value}), {name} -> {expression})[0]"


def _with_point(integer: str, scale: str) -> str:
    """Pads the digits of all but the sign to more than `scale`, then parts them there."""
    sign = f"CASE WHEN startswith({integer}, '-') THEN '-' ELSE '' END"
    digits = f"ltrim('-', {integer})"
    padded = f"lpad({digits}, greatest(length({digits}), {scale} + 1), '0')"
    whole = f"left({padded}, length({padded}) - {scale})"
    return (
        f"CASE WHEN {scale} = 0 THEN {integer} "
        f"WHEN {scale} > 0 THEN concat({sign}, {whole}, '.', right({padded}, {scale})) "
        f"ELSE concat({integer}, repeat('0', -({scale}))) END"
    )


def _long_text() -> str:
    """The integer of the hex text `digits`; a negative one's magnitude is its complement + 1."""
    negative = "digits >= '8'"
    flipped = "translate(digits, '0123456789ABCDEF', 'FEDCBA9876543210')"
    magnitude = f"CASE WHEN {negative} THEN {flipped} ELSE digits END"
    one_more = f"CASE WHEN {negative} THEN array({_step('1', '1')}) ELSE array() END"
    steps = f"concat({_steps(f'({magnitude})')}, {one_more})"
    limbs = f"aggregate({steps}, cast(array() AS array<bigint>), (held, step) -> {_multiplied()})"
    texts = f"transform(reverse({limbs}), limb -> lpad(cast(limb AS string), 9, '0'))"
    sign = f"CASE WHEN {negative} THEN '-' ELSE '' END"
    leading = literal(r"\A0+(?=.)")
    return f"concat({sign}, regexp_replace(array_join({texts}, ''), {leading}, ''))"


def _steps(magnitude: str) -> str:
    missing = f"pmod(-length({magnitude}), {_CHUNK})"
    padded = f"concat(repeat('0', {missing}), {magnitude})"
    chunk = f"conv(substring({padded}, at, {_CHUNK}), 16, 10)"
    starts = f"sequence(1, length({padded}) - {_CHUNK - 1}, {_CHUNK})"
    return f"transform({starts}, at -> {_step(str(16**_CHUNK), chunk)})"


def _step(factor: str, addend: str) -> str:
    return f"named_struct('factor', cast({factor} AS bigint), 'addend', cast({addend} AS bigint))"


def _multiplied() -> str:
    """The number `held` (limbs of 10^9, lowest first) times the step's factor, plus its addend."""
    start = "named_struct('carry', step.addend, 'limbs', cast(array() AS array<bigint>))"
    product = "(limb * step.factor + done.carry)"
    carried = (
        f"named_struct('carry', {product} div {_LIMB}, "
        f"'limbs', array_append(done.limbs, {product} % {_LIMB}))"
    )
    finished = (
        "CASE WHEN done.carry > 0 THEN array_append(done.limbs, done.carry) ELSE done.limbs END"
    )
    return f"aggregate(held, {start}, (done, limb) -> {carried}, done -> {finished})"
