"""The copy of an agent's state: its contents, digest and archive, as machines write it and provers read it."""
