"""The server of a world: its parts put together, its process, its listeners, what its own command line asks of it."""
