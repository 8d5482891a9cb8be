"""`verify --source`: gold compared with the database that it comes from."""
