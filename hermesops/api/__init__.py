"""The users' API: parses requests, calls services as the user that the token names, renders answers.

It must not open the registry: this process has no registry key, no proxy token and no vendor's key.
"""
