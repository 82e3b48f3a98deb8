"""Roles played by code of the user's: a Python function, a command, an HTTP endpoint or an installed plug-in."""
