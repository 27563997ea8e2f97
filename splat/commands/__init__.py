"""The commands of `splat`."""
