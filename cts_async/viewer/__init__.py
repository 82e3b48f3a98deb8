"""The viewer: a web server on this machine over a folder of runs, and the page that it serves."""
