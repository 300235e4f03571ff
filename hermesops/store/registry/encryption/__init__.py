"""Secret columns: which they are, how they are sealed, and how the key that seals them changes."""
