"""The stand-in for the vendor's program on each machine: serves the toolbox and proxy traffic on the machine's address.

Standard library only, nothing else of hermesops: it is copied onto every machine and runs there as root.
"""
