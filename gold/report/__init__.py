"""The report: one HTML page about how the lakehouse does."""
