"""Putting right what nobody else will."""
