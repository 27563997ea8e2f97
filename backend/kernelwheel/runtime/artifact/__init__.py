"""An Artifact: its manifest, what it was made from, and whether it fits a machine."""
