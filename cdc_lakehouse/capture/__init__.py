"""Captures changes of a database into landing files by Debezium's engine, without Kafka."""
