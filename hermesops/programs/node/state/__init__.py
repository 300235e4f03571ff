"""An agent's state: what belongs to it, counted, copied, replaced."""
