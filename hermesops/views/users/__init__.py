"""Shapes of users: their requests, their billing, and the API that serves them."""
