"""The frame that every endpoint shares."""
