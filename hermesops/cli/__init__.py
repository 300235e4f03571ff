"""The command line: one file per noun. Parse, call ``app``, render; no decisions."""
