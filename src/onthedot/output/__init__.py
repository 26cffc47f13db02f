"""What attempts leave behind: their records, artifacts, and where both are kept."""
