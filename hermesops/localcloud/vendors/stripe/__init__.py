"""A stand-in of Stripe: the calls that hermesops makes, its pages for payers, and signed events."""
