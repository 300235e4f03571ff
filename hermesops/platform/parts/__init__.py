"""Parts of a platform's host: database, model router, hermesops itself, monitoring and certificates."""
