"""Order keys: one binary per change; bytes compare as the total order of changes does.

An order key is the change's sequence and then its arrival. Each section of the sequence is the byte
01 and an unsigned 64-bit number, big-endian; the byte 00 ends the sequence; the arrival follows. So
a sequence that is a prefix of another sorts first, as in the text form of a sequence (sections of
16 upper-case hex digits, joined by `/`). A Debezium change has the epoch as its first section (see
`silver.state.epochs`). A truncate point or snapshot cut-off is an order key too, maybe without
arrival.

The SQL functions here take and return SQL text, so that they serve columns (`F.expr`) and views.
"""

SECTION, END = 0x01, b"\x00"
SECTION_BYTES = 9


def make_order(sequence: str, arrival: str = "") -> bytes:
    """The order key of a sequence in text form and an arrival in hex digits.

    An arrival counts up to its first `/`: what follows distinguishes records with one arrival. The
    number of a change within its record, behind a `+`, counts.
    """
    sections = "".join(f"01{section}" for section in sequence.split("/"))
    return bytes.fromhex(f"{sections}00{arrival.partition('/')[0].replace('+', '')}")


def sequence_of(order: bytes) -> bytes:
    """The part of an order key that stands for the sequence: up to and including the byte 00."""
    at = 0
    while order[at] == SECTION:
        at += SECTION_BYTES
    return order[: at + 1]


def split_order(order: bytes) -> tuple[str, str]:
    """The sequence in text form, and the arrival in upper-case hex digits."""
    sequence = sequence_of(order)
    starts = range(1, len(sequence) - 1, SECTION_BYTES)
    sections = (sequence[at : at + 8].hex().upper() for at in starts)
    return "/".join(sections), order[len(sequence) :].hex().upper()


def order_sql(sequence: str = "_sequence", arrival: str = "_arrival") -> str:
    """SQL of the order key of a sequence and an arrival; null where either is null."""
    sections = f"replace({sequence}, '/', '01')"
    digits = f"replace(substring_index({arrival}, '/', 1), '+', '')"
    return f"unhex(concat('01', {sections}, '00', {digits}))"


def sequence_text_sql(order: str) -> str:
    """SQL of the sequence of an order key, in text form; null for null."""
    sections = f"regexp_extract(hex({order}), '^((?:01[0-9A-F]{{16}})+)00', 1)"
    return f"substring(regexp_replace({sections}, '01([0-9A-F]{{16}})', '/$1'), 2)"


def sequence_sql(order: str) -> str:
    """SQL of the sequence of an order key, in binary: up to and including the byte 00."""
    return f"unhex(regexp_extract(hex({order}), '^((?:01[0-9A-F]{{16}})+00)', 1))"


def order_literal(order: bytes) -> str:
    """An order key as SQL."""
    return f"X'{order.hex().upper()}'"
