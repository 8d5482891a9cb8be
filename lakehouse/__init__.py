"""What runs, where and on which Spark: configuration, session, names, ledger, command line."""
