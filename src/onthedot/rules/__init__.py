"""Pure decisions over frozen values. `now` is an argument; there is no I/O, no clock and no randomness."""
