"""Who lives, and who leads."""
