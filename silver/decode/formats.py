"""The protocols that sources speak: who decodes a format's records, and who finds their columns."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from lakehouse.config.table import Table
from silver.decode.columns import Columns, Discovery
from silver.decode.debezium import decoder, discovery
from silver.decode.protocols import bigquery, rows, snapshot_files, ydb
from silver.decode.protocols.discovery import FlatDiscovery
from silver.decode.slices import Decoder


class Protocol(NamedTuple):
    """What makes a table's decoder, and its discovery, from the table and its known columns."""

    decoder: Callable[[Table, Columns], Decoder]
    discovery: Callable[[Table, Columns], Discovery]


PROTOCOLS: Mapping[str, Protocol] = {
    "debezium": Protocol(decoder.DebeziumDecoder, discovery.DebeziumDiscovery),
    "ydb": Protocol(ydb.YdbDecoder, ydb.YdbDiscovery),
    "bigquery": Protocol(bigquery.BigQueryDecoder, FlatDiscovery),
    "rows": Protocol(rows.RowsDecoder, rows.RowsDiscovery),
    "snapshot": Protocol(snapshot_files.SnapshotDecoder, FlatDiscovery),
}
