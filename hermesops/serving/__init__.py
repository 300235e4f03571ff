"""Servers: a listener that ends mutual TLS and bounds a client's costs, and one HTTP request a connection."""
