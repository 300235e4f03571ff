"""What keeps data: PostgreSQL, Redis and buckets. Each is protected, and stays when it leaves the program."""
