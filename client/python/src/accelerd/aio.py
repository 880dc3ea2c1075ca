"""The asyncio client: `accelerd.Client` with coroutine methods.

```python
from accelerd.aio import AsyncClient

async with AsyncClient("localhost:7433") as client:
    vectors = await client.embed(["parse a date"])
```
"""

from __future__ import annotations

from ._aio_call import AsyncCaller as AsyncCaller
from ._aio_client import AsyncClient as AsyncClient
from ._aio_collection import AsyncCollection as AsyncCollection
from ._aio_kernel import AsyncCompiledKernel as AsyncCompiledKernel
from ._aio_runtime import Batches as Batches
from ._aio_tensor import AsyncGraph as AsyncGraph
from ._aio_tensor import AsyncTensor as AsyncTensor
