"""What acts by itself: the monitor, scheduled jobs, and the checks of this computer."""
