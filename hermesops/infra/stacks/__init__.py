"""Pulumi programs and components: what a cell should consist of, said to an engine.

Pure but for the resources it registers: a program is built from model types and reads no configuration, environment,
clock or file. It must not know which engine runs it.
"""
