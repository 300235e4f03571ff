"""What a run does to resources: decide, create, update, replace, delete, import, refresh."""
