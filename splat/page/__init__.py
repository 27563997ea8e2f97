"""One HTML file with a scene in it, which draws the scene in the reader's browser."""
