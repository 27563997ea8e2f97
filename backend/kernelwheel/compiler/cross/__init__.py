"""Building for another platform than this machine's; wheels leave this folder out."""
