"""Packages that are imported only where they are used."""

from __future__ import annotations

import importlib
from typing import Any


class MissingPackageError(ImportError):
    """A package that the client does not require is not installed; the text says how to install it."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs {package}, which is not installed: pip install 'accelerd[{extra}]'", name=package
        )


def optional_module(module: str, what: str, extra: str) -> Any:
    """Import a module of a package that an extra of this package names.

    Raises:
        MissingPackageError: The package is not installed.
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        # Of an installed package that lacks one of its own, the error says which.
        if missing.name is None or missing.name.partition(".")[0] != package:
            raise
        raise MissingPackageError(what, package, extra) from None
