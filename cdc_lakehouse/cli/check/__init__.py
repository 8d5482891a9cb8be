"""Commands that prove and explain: quality, verify, explain, dead-letters."""
