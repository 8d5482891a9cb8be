"""Commands that verify and explain: quality, verify, explain, dead-letters."""
