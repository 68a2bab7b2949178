"""`passes batch`: one command done to many models, with a table and a page over all results."""
