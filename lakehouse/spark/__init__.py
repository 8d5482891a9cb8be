"""The Spark session: how it is made, what it needs, and what its failures say."""
