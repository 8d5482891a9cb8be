"""Silver: changes decoded, gated, put in sequence, applied by MERGE and recorded.

Each pass reads what bronze has gained, decodes it with the decoder of the table's format, lets the
quality gate reject what breaks a critical rule, appends the outcome to the change log, applies the
log's new part to the current table or the history, keeps what could not be applied as dead letters,
and records the counts.

A further source is a `Decoder` and a `Discovery` in `silver.decode`, an entry in
`silver.decode.formats.PROTOCOLS`, a name in `lakehouse.config.formats.FORMATS`, and one test
file. The decoder takes one record of bronze and returns one change or dead letter, in plain Python;
it never looks at a target. Options that only some formats know stand in `lakehouse.config.source`
and `FORMATS_OF_OPTION` of `lakehouse.config.table_rules`; for all others they are errors.
"""
