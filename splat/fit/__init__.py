"""Fitting a scene to pictures."""
