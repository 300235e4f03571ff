"""``hermesops rollout``: the group, and the modules of its longer commands."""
