"""The world's model router: whom it serves, and the scripted model behind it."""
