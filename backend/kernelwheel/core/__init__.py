"""What all other parts share: settings, manifest, host, verdict. All pure but `host`, `nvml` and `platforms`."""
