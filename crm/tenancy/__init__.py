"""One tenant, one SQLite file. The rest of the house does not know which, nor where."""
