"""Routes of the users' API, a module for each noun."""
