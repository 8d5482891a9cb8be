"""SQL expressions of a table's YAML, evaluated by Spark over decoded rows."""
