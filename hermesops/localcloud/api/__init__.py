"""The vendor's API: who may call it, what callers send, what they are answered."""
