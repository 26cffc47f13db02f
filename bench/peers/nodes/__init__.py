"""One program per system: a subclass of `bench.peers.node.Node`, with the best practical settings of that system."""
