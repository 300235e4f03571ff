"""Tables and lines about instances, for people."""
