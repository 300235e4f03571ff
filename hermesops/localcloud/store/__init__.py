"""The server's database: its tables, and the file that holds them."""
