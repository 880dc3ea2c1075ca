"""The names of portalis_cuda over accelerd: parse, embed, find similar, cluster and verify on a GPU or the CPU.

```python
from portalis_cuda import CUDAASTParser

result = CUDAASTParser().parse("def double(n): return 2 * n")
print(result.success)  # True
```
"""

from ._daemon import get_cuda_device_info, is_cuda_available
from ._embedding import CUDAEmbeddingGenerator, EmbeddingConfig, EmbeddingResult, cluster_code_snippets
from ._nodes import Node, Nodes
from ._parser import ASTParseResult, CUDAASTParser, ParserConfig
from ._verification import CUDAVerifier, VerificationCase, VerificationReport, VerificationResult

__all__ = [
    "ASTParseResult",
    "CUDAASTParser",
    "CUDAEmbeddingGenerator",
    "CUDAVerifier",
    "EmbeddingConfig",
    "EmbeddingResult",
    "Node",
    "Nodes",
    "ParserConfig",
    "VerificationCase",
    "VerificationReport",
    "VerificationResult",
    "cluster_code_snippets",
    "get_cuda_device_info",
    "is_cuda_available",
]
