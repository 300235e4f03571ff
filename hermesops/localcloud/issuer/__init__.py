"""Stands for the issuer of users' tokens: sign-in with one click, as one of the world's users."""
