"""The form of results: tables, columns, colours and streams."""
