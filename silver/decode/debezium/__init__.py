"""Debezium's change events: PostgreSQL's connector first, others by the same envelope."""
