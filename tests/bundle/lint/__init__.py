"""A linter of bundles: finds what neither the typed models nor `databricks bundle validate` find.

`python -m tests.bundle.lint FOLDER` prints what it finds, and exits with 1 if that is anything.
"""
