"""The connection of an environment to its platform: settings and files, and the registry that moves."""
