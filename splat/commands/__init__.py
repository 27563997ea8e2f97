"""The commands of `python -m splat`."""
