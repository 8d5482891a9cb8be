"""The one exception to append-only: records of a key taken out of bronze and of dropped files."""
