"""One tenant, one SQLite file. Other packages know neither which file, nor where it is."""
