"""The machines of a world, their images and backups."""
