"""Messages and documents that machines and the platform exchange; standard library only, as hermes-node carries it."""
