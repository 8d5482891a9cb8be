"""Values of any source as values of a column's type: JSON, texts, times, sequences."""
