"""Expectations over what gold shows, by Great Expectations, and their results."""
