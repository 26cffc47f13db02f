"""Nothing that comes from outside is imported, unpickled or evaluated: tried wherever text gets in."""
