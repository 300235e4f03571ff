"""One backup restored on a machine of its own: what comes next (pure), and the work."""
