"""The commands, one module or folder per noun: parse, call ``app``, show the result."""
