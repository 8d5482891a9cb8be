"""The headers of Kafka records, as bronze keeps them, in SQL."""

from bronze.contract import ID_HEADERS, Part

_ID_BYTES = 8


def headers_json(headers: str) -> str:
    """One JSON object, null when there are none; the last header of a name counts, as in Kafka.

    Values are texts in UTF-8, but for the ids of Avro schemas, which are numbers of 8 bytes.
    """
    ids = ", ".join(f"'{name}'" for names in ID_HEADERS.values() for name in names)
    is_id = f"h.key IN ({ids}) AND length(h.value) = {_ID_BYTES}"
    text = f"CASE WHEN {is_id} THEN conv(hex(h.value), 16, 10) ELSE CAST(h.value AS string) END"
    later = f"slice({headers}, i + 2, size({headers}))"
    last = f"filter({headers}, (h, i) -> NOT exists({later}, other -> other.key = h.key))"
    entries = f"transform({last}, h -> struct(h.key, {text}))"
    return f"to_json(map_from_entries({entries}), map('ignoreNullFields', 'false'))"


def naming_schema(part: Part) -> str:
    """Those of `headers` that name the Avro schema of a part of the record; null for none."""
    ids = ", ".join(f"'{name}'" for name in ID_HEADERS[part])
    named = f"filter(headers, h -> h.key IN ({ids}))"
    return f"CASE WHEN size({named}) > 0 THEN {headers_json(named)} END"
