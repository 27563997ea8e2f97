"""The words that everything else is written in: settings, manifest, host, verdict; pure but for the host."""
