"""The version of kernelwheel, written once: its own metadata and the manifests of what it builds take it from here."""

VERSION = "0.1.0"
