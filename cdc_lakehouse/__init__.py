"""The wheel by its own name; the code is in lakehouse, bronze, silver and gold."""
