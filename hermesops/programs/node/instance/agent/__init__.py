"""hermes-agent on a machine: its configuration, its gateway, its HTTP API, its cron jobs."""
