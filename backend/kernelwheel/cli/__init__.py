"""What a person types and reads: `doctor`, `explain`, `inspect` and `cache` of any package."""
