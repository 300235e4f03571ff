"""Where state files are kept: a folder or a bucket."""
