"""The demo: captured events, the questions it asks, and its story."""
