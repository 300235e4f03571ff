"""Telegram: updates by a webhook, messages by the Bot API."""
