"""The layout of Delta tables in silver, and SQL over them."""
