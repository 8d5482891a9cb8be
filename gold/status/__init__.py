"""How every table does: its state, what is wrong with it, and what to do."""
