"""Raw bronze records as typed changes: one module or package per protocol, in plain Python."""
