"""Everything that reports to people: doctor, explain, inspect and the cache commands."""
