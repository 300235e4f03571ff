"""The slots of a machine: each holds one release's files, and links say which one runs."""
