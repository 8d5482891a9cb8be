"""The report: one HTML page about the state of the lakehouse."""
