"""A project of the user's own: its template, which `databricks bundle init` reads too."""
