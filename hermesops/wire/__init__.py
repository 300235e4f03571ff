"""What both ends of a machine's line say and read; the standard library only, as hermes-node carries it."""
