"""Messengers: accounts are linked, messages reach agents and answers reach users, each once."""
