"""The platform host's gate for metrics: gives each series the identity of its sender's certificate, and no other.

It stands between nginx and Prometheus, runs on the platform host with Python's standard library and libsnappy, and
must not import the rest of hermesops.
"""
