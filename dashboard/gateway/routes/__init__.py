"""The gateway's addresses, by what they are about."""
