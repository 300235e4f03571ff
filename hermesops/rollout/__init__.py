"""One release to many instances: plan a course, decide what is next (pure), and do it."""
