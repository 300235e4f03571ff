"""One run over one stack: what the program registers, what is told of it, how it ends."""
