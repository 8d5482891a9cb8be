"""Questions to a lake on this machine that need no Spark."""
