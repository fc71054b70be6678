"""Examples, each of which runs as it is: offline, without a key, in one command."""
