"""Scenes: Gaussians in memory, the files that hold them, and what looks at them."""
