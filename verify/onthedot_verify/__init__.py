"""Tools that test onthedot: the store contract, the checker of histories, and the simulator of clusters."""
