"""Orders that the machine fetches from the platform: the target of its metrics and logs, and SSH access."""
