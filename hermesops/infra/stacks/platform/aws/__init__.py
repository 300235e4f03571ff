"""The platform on AWS: one component a file, and the program that joins them.

Imports of ``pulumi_aws`` are cheap: it loads a service's module when the service is used.
"""
