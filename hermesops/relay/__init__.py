"""The relay: the one way by which the platform's services reach agents, and nothing else of their machines.

It must not know of sockets or TLS; who calls is told to it.
"""
