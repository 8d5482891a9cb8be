"""Debezium's encodings of values, and how a schema block declares them."""
