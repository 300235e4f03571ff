"""The operators' console: pages over the services that commands call, for one browser of the operator's own computer.

A face: it parses, calls services of the container and renders shapes of ``hermesops.views``. It has no rule of its own.
"""
