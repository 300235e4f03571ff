"""Web chat: a user's turns, carried to their agent once and to its end."""
