"""Debezium's events: their forms, their parts, and their positions."""
