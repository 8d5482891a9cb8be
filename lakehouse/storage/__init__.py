"""Where tables lie: names, views, locks, and writing to Delta."""
