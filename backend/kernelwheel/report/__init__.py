"""What a person reads: doctor, explain, inspect and the cache commands."""
