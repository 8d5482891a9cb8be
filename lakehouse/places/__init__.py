"""Files of a lake by one interface: on a local disk, or in an object store."""
