"""What the decorators of Warp leave of a kernel: its function. The package has 150 MB."""

import sys
from types import ModuleType, SimpleNamespace


def install() -> None:
    """Make `import warp` find it."""
    warp = ModuleType("warp")
    for name in ("Kernel", "Function"):
        setattr(warp, name, type(name, (SimpleNamespace,), {"__module__": "warp", "__call__": lambda *_: None}))
    warp.kernel = lambda function: warp.Kernel(func=function)
    warp.func = lambda function: warp.Function(func=function)
    warp.array = lambda dtype: dtype
    sys.modules["warp"] = warp
