"""What the server remembers: its tables, the file that holds them, the account's API keys."""
