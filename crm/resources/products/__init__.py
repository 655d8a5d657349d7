"""Products: the record and its rules, the price list as CSV, and the endpoints."""
