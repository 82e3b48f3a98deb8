"""`cts init`: a commented cts.toml to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cts_async.tables.output import print_line

TEMPLATE = Path(__file__).with_name("init.toml")


def init(
    user: Annotated[
        bool,
        typer.Option("--user", help="Write ~/.config/cts/cts.toml instead, which applies in every folder."),
    ] = False,
) -> None:
    """Write a commented cts.toml into this folder, to add models, roles, prompts, search engines and page readers.

    Example: cts init

    Example: cts init --user

    Every line is an example, commented out. An existing file is never overwritten. The user's file (--user) is read
    first; the cts.toml of the working folder, or --config FILE, overrides it field by field.
    """
    import os

    from cts_async.config import SET_HOME, user_config_path
    from cts_async.errors import UsageError, write_error
    from cts_async.safe_files import create_file

    path: Path | None = Path("cts.toml")
    mode = 0o644
    if user:
        path = user_config_path(os.environ)
        # As cts_async reads it without asking, nobody else should see or change where keys go.
        mode = 0o600
    if path is None:
        raise UsageError(f"--user: this user has no home directory: {SET_HOME}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_file(path, TEMPLATE.read_bytes(), mode=mode)
    except FileExistsError:  # also where two commands were typed at once: the file is made in one step
        raise UsageError(f"{path}: exists already; nothing was changed") from None
    except OSError as error:
        refused = write_error(path, error)
        if user and isinstance(refused, UsageError):
            raise UsageError(f"{refused}: {SET_HOME}") from None
        raise refused from None
    print_line(f"{path}: written; uncomment what you use (remove the #), then run cts models")
