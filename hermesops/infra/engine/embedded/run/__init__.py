"""A single run over one stack: the program's registrations, events, the result."""
