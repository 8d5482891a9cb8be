"""Silver: changes decoded, gated, put in sequence, applied by MERGE and recorded.

Each pass reads what bronze has gained, decodes it with the module of the table's format, lets the
quality gate reject what breaks a critical rule, appends the outcome to the change log, applies the
log's new part to the current table or the history, keeps what could not be applied as dead letters,
and records the counts.

A further source is one module with `to_changes(raw: DataFrame, table: Table) -> DataFrame` that
returns the columns of `silver.contract.CHANGE_COLUMNS`, one entry in `silver.decode.DECODERS`, one
test file.
"""
