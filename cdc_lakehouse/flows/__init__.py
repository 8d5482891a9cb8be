"""AUTO CDC as functions: for any Spark session, on any Delta table, without a lake of ours."""
