"""Bring an instance onto another machine: what comes next (pure), and the work."""
