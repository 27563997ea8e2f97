"""Types and rules shared by all other parts: settings, manifest, host and verdict; all pure but `host` and `nvml`."""
