"""The commands: parse, call, print. One file each."""
