"""What this computer and this environment need for hermesops to work, and whether it is there."""
