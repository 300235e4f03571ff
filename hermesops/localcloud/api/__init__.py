"""The vendor's API: authentication, requests, answers."""
