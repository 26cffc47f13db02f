"""Records what attempts print, removes secrets from it, and keeps it with their artifacts until the run is pruned."""
