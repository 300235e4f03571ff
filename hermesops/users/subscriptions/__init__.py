"""Subscriptions at Stripe: checkout, portal and cancellation, statements for their users, and the nightly sweep."""
