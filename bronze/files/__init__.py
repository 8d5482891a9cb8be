"""Dropped files into bronze: what kinds of files there are, and how their records are read."""
