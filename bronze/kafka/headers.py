"""The headers of Kafka records, as bronze keeps them."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from bronze.contract import ID_HEADERS, Part

_IDS = [name for names in ID_HEADERS.values() for name in names]
_ID_BYTES = 8


def headers_json(headers: Column) -> Column:
    """One JSON object, null when there are none; the last header of a name counts, as in Kafka.

    Values are texts in UTF-8, but for the ids of Avro schemas, which are numbers of 8 bytes.
    """
    last = F.filter(headers, lambda header, place: ~_comes_again(headers, header, place))
    text = F.transform(last, lambda header: F.struct(header["key"], _text(header)))
    return F.to_json(F.map_from_entries(text), {"ignoreNullFields": "false"})


def naming_schema(headers: Column, part: Part) -> Column:
    """Those of the headers that name the Avro schema of a part of the record; null for none."""
    named = F.filter(headers, lambda header: header["key"].isin(*ID_HEADERS[part]))
    return F.when(F.size(named) > 0, headers_json(named))


def _text(header: Column) -> Column:
    value = header["value"]
    is_id = header["key"].isin(*_IDS) & (F.length(value) == _ID_BYTES)
    return F.when(is_id, F.conv(F.hex(value), 16, 10)).otherwise(value.cast("string"))


def _comes_again(headers: Column, header: Column, place: Column) -> Column:
    later = F.slice(headers, place + 2, F.size(headers))
    return F.exists(later, lambda other: other["key"] == header["key"])
