"""Scenes: Gaussians in memory, the files that store them, images and cameras."""
