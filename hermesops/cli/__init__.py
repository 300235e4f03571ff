"""The command line: ``commands`` has a module per noun. Parse, call ``app``, show; no decisions."""
