"""The programs in `examples/`, taken at their word. That each runs to its end is in `tests/docs/test_examples.py`."""
