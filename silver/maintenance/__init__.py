"""Repair and upkeep: replay, rebuild, erase, purge."""
