"""Commands that ask: sql, shell, status, report, serve, export."""
