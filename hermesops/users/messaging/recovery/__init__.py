"""What became of messages of which nothing is heard."""
