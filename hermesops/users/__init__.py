"""Everything about a user's account: subscriptions and payments."""
