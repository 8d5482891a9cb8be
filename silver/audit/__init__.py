"""Proofs and explanations: verify a table, explain a key."""
