"""Data stores: PostgreSQL, Redis and buckets. Each is protected, and stays if it leaves the program."""
