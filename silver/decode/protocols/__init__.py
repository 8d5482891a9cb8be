"""Formats whose records hold flat rows: YDB, BigQuery, rows of any origin, snapshot files."""
