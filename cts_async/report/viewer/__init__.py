"""The viewer: a server on this machine, and the page that it serves, over a folder of runs."""
