"""Missing records: gaps in new batches, records gone at the source, sources without a record."""
