"""Settings of agents without their secrets, and policies of rollouts."""
