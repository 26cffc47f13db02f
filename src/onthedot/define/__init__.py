"""Code and text become jobs."""
