"""An instance onto another machine: what is asked, what comes next (pure), and the work."""
