"""The cache of Artifacts, and the files used to export and import them."""
