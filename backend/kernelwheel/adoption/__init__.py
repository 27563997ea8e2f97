"""The converter of a setup.py with torch extensions into tables of pyproject.toml; run once, not at run time."""
