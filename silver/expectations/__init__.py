"""Row rules: which changes a table refuses, and which it warns of."""
