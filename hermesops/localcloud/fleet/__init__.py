"""The machines of a world and what is made of them: images and backups."""
