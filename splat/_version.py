"""The version, written once: the metadata, the manifest and the check on import all take it from here."""

VERSION = "0.1.0"
