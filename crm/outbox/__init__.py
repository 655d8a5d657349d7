"""Events, and their delivery to webhooks and callbacks."""
