"""The protocol between engine, providers and programs: property values, calls, answers. Starts no process."""
