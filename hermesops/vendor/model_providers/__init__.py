"""Model providers as hermesops asks them: once, about a user's key."""
