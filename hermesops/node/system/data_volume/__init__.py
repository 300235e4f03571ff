"""A user's data volume on the computer: its size, its encryption, its file system."""
