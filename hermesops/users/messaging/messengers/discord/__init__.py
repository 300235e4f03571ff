"""Discord: direct messages by its gateway, commands by a webhook, messages by its HTTP API."""
