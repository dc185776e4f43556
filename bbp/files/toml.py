"""Tables of options in TOML files, whatever an editor or a hostile hand has made of them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from bbp.console.errors import FileError
from bbp.files.regular import read_regular

LARGEST = 2**20  # bytes: options take a few lines


def table(path: str | Path) -> dict[str, Any]:
    """The top table of the TOML file at `path`; a byte-order mark is skipped. FileError, one line, if it is not one."""
    try:
        text = read_regular(path, LARGEST).decode("utf-8-sig")
        return tomllib.loads(text)
    except FileError as error:
        raise FileError(f"cannot read the configuration: {error}") from None
    except RecursionError:
        raise FileError(f"{str(path)!r} is not TOML that is read here: it is nested too deeply") from None
    except ValueError as error:  # no UTF-8, no TOML, or an integer of thousands of digits
        raise FileError(f"{str(path)!r} is not TOML: {error}") from None
