"""Everything that turns a Plan into an Artifact."""
