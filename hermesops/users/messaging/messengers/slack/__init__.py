"""Slack: events by the Events API, messages by its Web API."""
