"""Commands that tell: sql, status, report."""
