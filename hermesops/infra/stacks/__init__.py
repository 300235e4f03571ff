"""Pulumi programs and components: the desired resources of a cell or platform, for an engine.

Pure but for the resources it registers: a program is built from model types and reads no configuration, environment,
clock or file. It must not know which engine runs it.
"""
