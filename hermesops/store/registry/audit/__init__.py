"""The audit log: its entries, the chain of hashes over them, and that chain's heads outside the database."""
