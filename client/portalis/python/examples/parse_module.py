"""Parses a module, then many at once, and prints what was found and what it took."""

from collections import Counter

from portalis_cuda import CUDAASTParser

SOURCE = """
def fibonacci(n):
    if n <= 1:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


class Calculator:
    def add(self, x, y):
        return x + y
"""

parser = CUDAASTParser(max_nodes=100000, max_tokens=500000)

result = parser.parse(SOURCE)
if result.success:
    print(f"Parsed {len(result.nodes)} nodes")
    print(f"Parsing time: {result.metrics['total_time_ms']:.2f} ms")
    print(f"GPU utilization: {result.metrics['gpu_utilization']:.2%}")
    kinds = Counter(node["kind"] for node in result.nodes)
    print(f"Functions: {kinds['FunctionDef']}, calls: {kinds['Call']}")
else:
    print(f"Parse failed: {result.error}")

for broken in ["def f(:\n", "x = " + "+".join("1" * 1000)]:
    result = CUDAASTParser(max_nodes=1000).parse(broken)
    if "out of memory" in (result.error or ""):
        print("Reduce the batch")
    else:
        print(f"Parse failed: {result.error}")

parser.config.enable_async = True
futures = [parser.parse_async(f"value_{index} = {index}") for index in range(100)]
results = [future.result() for future in futures]
print(f"Parsed {sum(result.success for result in results)} of {len(results)} sources")
