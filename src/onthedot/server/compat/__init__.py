"""The routes of the documents that onthedot was made after, exactly, with their words."""
