"""The stand-in of the vendor's own program on a machine: toolbox and proxy traffic, over the machine's own address.

Standard library only, and it imports nothing of ours: it is copied into every machine and runs there as root.
"""
