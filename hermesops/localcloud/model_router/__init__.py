"""The world's model router: token checks, request log, and the scripted model behind it."""
