"""A user's chat with their agent: turns, and the events that the user's pages see."""
