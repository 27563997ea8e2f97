"""What happens to the wheels and sdists that setuptools builds; run by the hooks, not at run time."""
