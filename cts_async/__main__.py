"""`python -m cts_async` is the command `cts`."""

from cts_async.cli.start import start

if __name__ == "__main__":
    start()
