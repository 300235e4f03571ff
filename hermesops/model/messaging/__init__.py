"""Messengers, and the messages that come from them and go to them."""
