"""The YAML of targets and tables: its models, its rules, and how it is read."""
