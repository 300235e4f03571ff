"""The engine that needs no pulumi CLI: same program, same plugin protocol, same state files.

Its oracle is a set of recordings of the CLI; an unsupported feature ends in an error that names the CLI.
"""
