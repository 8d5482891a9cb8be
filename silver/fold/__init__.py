"""The convergence law over Arrow record batches, and the Spark plan around it."""
