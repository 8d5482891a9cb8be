"""Avro records whose schemas lie in a registry: wire format, binary encoding, values."""
