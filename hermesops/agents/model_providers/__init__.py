"""Users' own model providers: which there are, whether one accepts a key, and the settings that name it."""
