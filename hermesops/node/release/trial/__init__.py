"""A release tried on a private copy of the state, before the machine goes over to it."""
