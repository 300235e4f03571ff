"""Shapes of rollouts: status, progress, preview, and the picture that is redrawn while one runs."""
