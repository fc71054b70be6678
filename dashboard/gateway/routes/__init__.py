"""The gateway's routes, one module for each subject."""
