"""The envelopes that have a name, which `source.format` takes: data, and nothing else.

Each follows its vendor's documentation, as docs/guides/presets.md says.
"""

from typing import Any, Literal, TypeAlias

from lakehouse.config.formats import (
    CHANGE_TYPE,
    COMING,
    COMMIT_TIME,
    COMMIT_VERSION,
    FEED_ORDER,
    GOING,
)

Preset: TypeAlias = Literal[
    "maxwell", "canal", "goldengate", "dms", "lakebase", "datastream", "qlik", "sqlserver_cdc",
    "airbyte", "fivetran", "dynamodb", "mongodb_change_streams", "delta_change_feed",
]  # fmt: skip

_HEX = (
    "CASE WHEN {0} LIKE '0x%' THEN substring({0}, 3) WHEN length({0}) = 20 THEN {0}"
    " ELSE hex(unbase64({0})) END"
)
"""Ten bytes: 20 hex digits, or base64, which has 16 letters then."""

_LSN = _HEX.format("cast(`__$start_lsn` AS string)")
_VALUE = _HEX.format("cast(`__$seqval` AS string)")
_COMMAND = "lpad(hex(coalesce(cast(`__$command_id` AS bigint), 0)), 8, '0')"
_PLACE = f"concat({_LSN}, {_COMMAND}, {_VALUE})"
_NUMBER = "lpad(coalesce(dynamodb.SequenceNumber, SequenceNumber), 40, '0')"
_FILE = "cast(nullif(regexp_extract({}, '[0-9]+$', 0), '') AS bigint)"
_POSTGRES = (
    "cast(conv(split_part(source_metadata.lsn, '/', 1), 16, 10) AS bigint) * 4294967296"
    " + cast(conv(split_part(source_metadata.lsn, '/', 2), 16, 10) AS bigint)"
)
_CDC_LSN = "replace(cast(_ab_cdc_lsn AS string), ':', '')"

PRESETS: dict[str, dict[str, Any]] = {
    "maxwell": {
        "row": "data",
        "old": "old",
        "operation": "type",
        "deletes": ["delete"],
        "truncates": ["table-truncate"],
        "keys": "primary_key_columns",
        "where": "type IN ('insert', 'update', 'delete', 'bootstrap-insert', 'table-truncate')",
        "sequence_by": [
            "ts",
            "coalesce(cast(xid AS bigint), 0)",
            "coalesce(cast(xoffset AS bigint), 9223372036854775807)",
        ],
        "time_column": "ts",
    },
    "canal": {
        "row": "data",
        "old": "old",
        "operation": "type",
        "deletes": ["DELETE"],
        "truncates": ["TRUNCATE"],
        "keys": "pkNames",
        "where": "type IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')",
        "sequence_by": ["es", "id"],
        "time_column": "es",
    },
    "goldengate": {
        "row": "after",
        "old": "before",
        "operation": "op_type",
        "deletes": ["D"],
        "truncates": ["T"],
        "keys": "primary_keys",
        "where": "op_type IN ('I', 'U', 'D', 'T')",
        "sequence_by": "cast(pos AS decimal(38,0))",
        "time_column": "op_ts",
        "missing": "_isMissing",
    },
    "dms": {
        "row": ["data", "."],
        "old": "before-image",
        "operation": ["metadata.operation", "Op"],
        "deletes": ["delete", "D"],
        "upserts": ["load", "insert", "update", "I", "U"],
        "where": "coalesce(metadata.`record-type`, 'data') = 'data'",
        "leave_out": ["Op"],
    },
    "lakebase": {
        "operation": "_pg_change_type",
        "deletes": ["delete"],
        "upserts": ["insert", "update_postimage"],
        "where": "_pg_change_type <> 'update_preimage'",
        "sequence_by": "_pg_lsn",
        "time_column": "_timestamp",
        "leave_out": ["_pg_*", "_timestamp"],
    },
    "datastream": {
        "row": ["payload", "."],
        "operation": ["source_metadata.change_type", "_metadata_change_type"],
        "deletes": ["DELETE", "UPDATE-DELETE"],
        "upserts": ["INSERT", "UPDATE", "UPDATE-INSERT"],
        "keys": "source_metadata.primary_keys",
        "sequence_by": [
            "coalesce(unix_micros(to_timestamp(source_timestamp)),"
            " cast(_metadata_timestamp AS bigint))",
            f"coalesce({_FILE.format('source_metadata.log_file')},"
            f" {_FILE.format('_metadata_log_file')}, cast(source_metadata.scn AS bigint),"
            f" cast(_metadata_scn AS bigint), {_POSTGRES}, 0)",
            "coalesce(cast(source_metadata.log_position AS bigint),"
            " cast(_metadata_log_position AS bigint), cast(source_metadata.ssn AS bigint),"
            " cast(_metadata_ssn AS bigint), 0)",
            "CASE WHEN coalesce(source_metadata.change_type, _metadata_change_type)"
            " = 'UPDATE-DELETE' THEN 0 ELSE 1 END",
        ],
        "time_column": "source_timestamp",
        "leave_out": ["_metadata_*"],
    },
    "qlik": {
        "operation": "header__change_oper",
        "deletes": ["D"],
        "upserts": ["I", "U"],
        "where": "header__change_oper <> 'B'",
        "sequence_by": "cast(header__change_seq AS decimal(38,0))",
        "time_column": "header__timestamp",
        "leave_out": ["header__*"],
    },
    "sqlserver_cdc": {
        "operation": "__$operation",
        "deletes": [1],
        "upserts": [2, 4, 5],
        "where": "`__$operation` <> 3",
        "sequence_by": f"concat_ws('/', substring({_PLACE}, 1, 16), substring({_PLACE}, 17, 16),"
        f" substring({_PLACE}, 33, 16))",
        "leave_out": ["__$*"],
    },
    "airbyte": {
        "row": ["_airbyte_data", "."],
        "operation": ["_ab_cdc_deleted_at", "_airbyte_data._ab_cdc_deleted_at"],
        "deletes": ["*"],
        "sequence_by": f"CASE WHEN cast(_ab_cdc_lsn AS string) LIKE '%:%' THEN concat("
        f"substring({_CDC_LSN}, 1, 16), '/', substring({_CDC_LSN}, 17))"
        f" ELSE concat(hex(coalesce(cast(_ab_cdc_lsn AS bigint), cast(_ab_cdc_cursor AS bigint),"
        f" {_FILE.format('_ab_cdc_log_file')})), '/',"
        " hex(coalesce(cast(_ab_cdc_log_pos AS bigint), 0))) END",
        "time_column": "_ab_cdc_updated_at",
        "leave_out": ["_ab_cdc_*", "_airbyte_*"],
    },
    "fivetran": {
        "operation": "_fivetran_deleted",
        "deletes": [True],
        "upserts": [False],
        "sequence_by": "to_timestamp(_fivetran_synced)",
        "time_column": "_fivetran_synced",
        "leave_out": ["_fivetran_*"],
    },
    "dynamodb": {
        "row": ["dynamodb.NewImage", "."],
        "old": "dynamodb.Keys",
        "operation": "eventName",
        "deletes": ["REMOVE"],
        "keys": "dynamodb.Keys",
        "where": "eventName IN ('INSERT', 'MODIFY', 'REMOVE')",
        "sequence_by": [
            f"cast(substring({_NUMBER}, {first}, 10) AS bigint)" for first in (1, 11, 21, 31)
        ],
        "time_column": "dynamodb.ApproximateCreationDateTime",
        "leave_out": ["eventName", "SequenceNumber", "ApproximateCreationDateTime"],
        "complete": True,
        "values": "dynamodb",
    },
    "mongodb_change_streams": {
        "row": ["fullDocument", "updateDescription.updatedFields"],
        "old": "documentKey",
        "operation": "operationType",
        "deletes": ["delete"],
        "truncates": ["drop"],
        "keys": "documentKey",
        "where": "operationType IN ('insert', 'update', 'replace', 'delete', 'drop')",
        "sequence_by": ["clusterTime.`$timestamp`.t", "clusterTime.`$timestamp`.i"],
        "time_column": "clusterTime.`$timestamp`.t",
        "removed": "updateDescription.removedFields",
        "complete": True,
        "values": "mongodb",
    },
    "delta_change_feed": {
        "operation": CHANGE_TYPE,
        "deletes": [*GOING],
        "upserts": [*COMING],
        "sequence_by": FEED_ORDER,
        "time_column": COMMIT_TIME,
        "leave_out": [CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIME],
    },
}

SIGNS: list[tuple[str, tuple[str, ...]]] = [
    ("canal", ("database", "table", "type", "es", "isDdl")),
    ("maxwell", ("database", "table", "type", "ts", "data")),
    ("goldengate", ("table", "op_type", "op_ts", "pos")),
    ("dms", ("data", "metadata.record-type", "metadata.operation")),
    ("lakebase", ("_pg_change_type", "_pg_lsn")),
    ("datastream", ("source_metadata", "sort_keys", "payload")),
    ("datastream", ("_metadata_stream", "_metadata_timestamp")),
    ("qlik", ("header__change_seq", "header__change_oper")),
    ("sqlserver_cdc", ("__$start_lsn", "__$operation")),
    ("airbyte", ("_airbyte_data", "_airbyte_extracted_at")),
    ("airbyte", ("_ab_cdc_updated_at",)),
    ("fivetran", ("_fivetran_synced", "_fivetran_deleted")),
    ("dynamodb", ("eventName", "dynamodb.Keys", "dynamodb.SequenceNumber")),
    ("dynamodb", ("eventName", "SequenceNumber", "ApproximateCreationDateTime")),
    ("mongodb_change_streams", ("operationType", "documentKey", "clusterTime")),
    ("delta_change_feed", ("_change_type", "_commit_version")),
]
"""The members by which `init --from` recognises a preset."""

TABLE_MEMBERS: dict[str, tuple[str, ...]] = {
    "debezium": ("source.db", "source.schema", "source.table", "__table"),
    "canal": ("database", "table"),
    "maxwell": ("database", "table"),
    "goldengate": ("table",),
    "dms": ("metadata.schema-name", "metadata.table-name"),
    "datastream": ("source_metadata.schema", "source_metadata.table"),
    "mongodb_change_streams": ("ns.db", "ns.coll"),
}
"""The members by which a record names its table, where one file may have those of several."""
