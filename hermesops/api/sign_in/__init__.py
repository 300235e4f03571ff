"""Who asks: from a bearer token to a user id."""
