"""The secrets that hermesops itself needs: which there are, and where each is kept."""
