"""Files of other programs: their columns matched with our fields, their values as ours (D9)."""
