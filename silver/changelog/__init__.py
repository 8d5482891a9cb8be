"""The change log of a table: bronze decoded and judged, with its dead letters."""
