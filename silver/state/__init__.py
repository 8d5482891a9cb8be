"""What a table has applied so far, and what a batch of its change log holds."""
