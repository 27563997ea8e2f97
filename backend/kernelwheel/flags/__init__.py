"""Flags of compilers and linkers: their words, and what those name."""
