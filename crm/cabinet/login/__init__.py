"""Who may see a page: sign-up, logins and sessions, and the checks before each page."""
