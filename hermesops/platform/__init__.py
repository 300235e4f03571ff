"""The shared platform: its hosts, services, state and the roles that bootstrap it."""
