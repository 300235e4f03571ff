"""Servers: a listener that ends mutual TLS and bounds what a client costs, and one HTTP request a connection."""
