"""The status of every table: its figures, what is wrong with it, and what to do."""
