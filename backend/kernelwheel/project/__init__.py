"""The package that is built: what its pyproject.toml declares, and the files of its sources."""
