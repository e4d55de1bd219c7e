"""The only door to the network: everything that goes out goes through here."""
