"""What a run needs to become a call."""
