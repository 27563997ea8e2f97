"""The public functions, and what torch must know about the compiled operators."""
