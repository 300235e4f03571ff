"""What a machine proves its identity with: its key, its certificate, its credential."""
