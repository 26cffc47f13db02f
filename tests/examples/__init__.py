"""Tests of the programs in `examples/`. `tests/docs/test_examples.py` checks that each runs to its end."""
