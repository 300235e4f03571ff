"""Routes of the console, one module a noun."""
