"""What records of other tools are, and which tables the topics of a folder are."""
