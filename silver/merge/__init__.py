"""Writes of folded rows into silver's tables."""
