"""The server of a world: wiring, process, listeners, commands of its own command line."""
