"""The slots of a machine: each holds one release's files, and links name the running one."""
