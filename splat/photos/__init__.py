"""Photographs, and the cameras that took them, as other programs write them."""
