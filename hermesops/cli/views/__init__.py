"""Views: JSON objects, table rows and lines made of the results of commands."""
