"""The cache of Artifacts, and the files that they travel in."""
