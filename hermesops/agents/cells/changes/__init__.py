"""What a run would change in a cell, and whether it may begin. Pure."""
