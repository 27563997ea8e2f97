"""Types and rules that every other part uses: settings, manifest, host, verdict; only the host probes anything."""
