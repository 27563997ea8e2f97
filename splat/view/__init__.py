"""Looking at scenes in a browser."""
