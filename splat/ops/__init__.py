"""The public functions, and what torch must know of the compiled operators."""
