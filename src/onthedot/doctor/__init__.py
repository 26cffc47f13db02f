"""What this machine and this configuration offer, tried out; what is missing, what that costs, and how to get it."""
