"""What happened, told to others."""
