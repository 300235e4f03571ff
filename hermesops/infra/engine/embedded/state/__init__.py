"""The stacks' state files as Pulumi writes them: read, checked, locked, kept true."""
