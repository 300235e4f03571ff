"""What does each kind of operation, given its row and lease."""
