"""JustAVPS: its API, and the channel to a machine."""
