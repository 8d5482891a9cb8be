"""Kafka topics into bronze: brokers, headers, secrets, and the schemas of a registry."""
