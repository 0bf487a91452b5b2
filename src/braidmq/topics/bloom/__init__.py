"""Interest filters."""
