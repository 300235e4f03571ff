"""The monthly cost of machines: list prices, bills, and a comparison with the account of JustAVPS."""
