"""The folder that `python -m splat.as_gsplat` puts on PYTHONPATH. What is in it, Python imports as it starts."""
