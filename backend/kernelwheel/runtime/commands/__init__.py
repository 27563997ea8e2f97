"""The commands that every wheel has."""
