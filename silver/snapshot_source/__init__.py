"""Snapshot files: one extract of a table per effective date."""
