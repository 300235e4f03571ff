"""WhatsApp: reports by a webhook, messages by the Cloud API."""
