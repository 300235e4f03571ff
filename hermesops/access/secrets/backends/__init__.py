"""Backends for secrets: files in a folder, an age-encrypted file, AWS Secrets Manager."""
