"""Authentication, rights and rate limits."""
