"""What is said of a registry that is damaged or gone."""

RESTORE = (
    "hermesops registry restore --latest puts its newest good copy in its place; hermesops registry copies lists all"
)
"""The damaged file itself is set aside, never overwritten."""
