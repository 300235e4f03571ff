"""The monitor, scheduled jobs, and checks of this computer: they act without a command."""
