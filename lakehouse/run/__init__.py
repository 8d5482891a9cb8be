"""What runs leave and share: the ledger, gaps, and what one process remembers."""
