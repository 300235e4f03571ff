"""Groups of commands: nouns, and their lazy import."""
