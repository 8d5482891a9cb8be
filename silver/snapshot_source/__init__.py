"""Snapshot files: all rows (full) or the changed rows (delta) of a table per effective date."""
