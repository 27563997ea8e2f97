"""What this machine compiles with, from files and `--version` output."""
