import sys
from pathlib import Path

import numpy as np

sys.path.append(f"{root}/client/python/tests")
import wasm_module as w

expected = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
actual = expected.copy()
actual[1, 2, 0] = 20.5


def norm(x: float, n: int) -> float:
    return x * float(n // n)


def fast_norm(x: float, n: int) -> float:
    return x * float(n // n)


# The square of a small number is 0, so that this norm underflows, as that of math.hypot does not.
square = w.get(0) + w.get(0) + w.F64_MUL + w.get(1) + w.get(1) + w.F64_MUL + w.F64_ADD + b"\x9f"
Path("lib.wasm").write_bytes(w.module("norm", ["f64", "f64"], ["f64"], square))
reference = "import math\n\ndef norm(x: float, y: float) -> float:\n    return math.hypot(x, y)\n\n"
Path("ref.py").write_text(reference + "def predict(x: float) -> float:\n    return 2.0 * x + 1.0\n")
np.save("x.npy", np.linspace(-1.0, 1.0, 5000))
np.save("out.npy", 2.0 * np.linspace(-1.0, 1.0, 5000) + 1.0)
divide, convert, multiply = b"\x6d", b"\xb7", b"\xa2"
module = w.module("norm", ["f64", "i32"], ["f64"], w.get(0) + w.get(1) + w.get(1) + divide + convert + multiply)
Path("build").mkdir()
for path in ("norm.wasm", "build/norm.wasm"):
    Path(path).write_bytes(module)
xs, ns = np.array([1.0, 2.0]), np.array([3, 4], np.int32)
replaced["1_000_000"] = "1_000"
replaced["100_000_000"] = "1_000"
replaced[', device="cuda")'] = ")"
