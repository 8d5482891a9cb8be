"""First YAML of tables, written from a sample file or from a database."""
