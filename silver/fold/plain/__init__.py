"""Keys that need no loop are folded for a whole window at once, and the columns that this takes."""
