"""The routes of the two requirements documents, with their exact paths and field names."""
