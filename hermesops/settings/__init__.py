"""The only reader of the environment and of settings files.

It builds nothing of what it read: that is ``hermesops.app``.
"""
