"""What runs, where it runs and on which Spark: configuration, session, names, ledger and the command line."""
