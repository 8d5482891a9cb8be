"""Silver: changes decoded, gated, put in sequence, applied by MERGE and recorded.

Each pass reads what bronze has gained, decodes it with the module of the table's format, lets the
quality gate reject what breaks a critical rule, appends the outcome to the change log, applies the
log's new part to the current table or the history, keeps what could not be applied as dead letters,
and records the counts.

A further source is one module here with `to_changes(raw: DataFrame, table: Table) -> DataFrame`,
one entry in `lakehouse.formats.FORMATS` and one test file. The decoder gets bronze rows and returns
one row for each: the table's key and business columns in their types, then the columns of
`silver.contract.CHANGE_COLUMNS`; it never looks at a target. `silver.flat` types the members of
JSON objects, `silver.changes` puts the contract's columns together, `silver.sequence` makes the one
string that sorts in commit order. Options that only some formats know name these formats
(`FORMATS_OF_OPTION` in `lakehouse.table_rules` and `source_rules`); for all others they are errors.
"""
