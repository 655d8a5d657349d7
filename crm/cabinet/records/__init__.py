"""Pages of records: leads, clients, products and tasks, and what the pages of all records share."""
