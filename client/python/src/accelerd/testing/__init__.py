"""Tests that two functions are equivalent, for cases that a daemon makes.

```python
from accelerd.testing import equivalent, floats, integers

@equivalent(reference=norm, wasm="norm.wasm", x=floats(-1e3, 1e3), n=integers(0, 100), max_ulps=1)
def test_the_translation_of_norm():
    pass
```

The plugin of pytest, `accelerd.testing.plugin`, is loaded where the package is installed.
"""

from .._domain import Domain, booleans, floats, integers, lists
from ._equivalent import equivalent

__all__ = ["Domain", "booleans", "equivalent", "floats", "integers", "lists"]
