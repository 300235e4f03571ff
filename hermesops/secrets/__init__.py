"""The secrets that hermesops itself needs: which there are, where each is kept, and how it is read."""
