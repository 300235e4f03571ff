"""An agent's state as one stream, written and read."""
