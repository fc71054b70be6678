"""The faces: the gateway, and the `agency` command."""
