"""Options that several commands share, and how their values are read."""
