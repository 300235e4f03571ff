"""Shapes of results: objects as the plain data that every face renders, JSON and tables of the command line first.

It must not know how something is shown. A key is never removed or given another meaning without a new version of the
face's JSON. No secret has a shape.
"""
