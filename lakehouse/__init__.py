"""What all layers share: configuration, places, Spark session, storage, locks and the ledger."""
