"""Servers: a listener that terminates mutual TLS and bounds a client's costs, and one HTTP request a connection."""
