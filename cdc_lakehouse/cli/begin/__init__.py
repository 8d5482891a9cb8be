"""Commands to begin with: demo, init, validate, plan."""
