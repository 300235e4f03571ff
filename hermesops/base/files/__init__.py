"""Files: brought to the disk, kept from others, and SQLite with a write-ahead log."""
