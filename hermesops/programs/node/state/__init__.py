"""An agent's state: its contents, counts, copies and replacement."""
