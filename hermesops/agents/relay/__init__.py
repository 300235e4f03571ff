"""The relay: the only way for the platform's services to reach agents, and nothing else on their machines.

It must not know of sockets or TLS; it gets the caller's certificate.
"""
