"""Records that are missing: in what bronze gained, at the source, and where nothing arrived."""
