"""From a Plan to an Artifact."""
