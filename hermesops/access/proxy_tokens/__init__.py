"""Tokens for JustAVPS's proxy: issued per machine and purpose, and renewed before they expire."""
