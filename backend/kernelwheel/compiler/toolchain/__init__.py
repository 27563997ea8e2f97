"""The detection of what this machine compiles with, from files and `--version` output."""
