import numpy as np
import warp_stub
from pathlib import Path

warp_stub.install()
np.save("x.npy", np.ones(1000, np.float32))
np.save("y.npy", np.ones(1000, np.float32))
Path("saxpy.py").write_text('''import warp as wp

@wp.kernel
def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] += a * x[i]
''')
Path("plain.py").write_text('''import warp as wp

@wp.kernel
def plain(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = y[i] + a * x[i]
''')
Path("norm.py").write_text("import math\n\ndef norm(x: float, y: float) -> float:\n    return math.sqrt(x * x + y * y)\n")
x, y = np.ones(4, np.float32), np.ones(4, np.float32)
before["saxpy.launch"] = "saxpy = accelerd.kernel(saxpy)"
replaced["evict 3f9a"] = "evict $(accelctl kernel list --json | grep -o '\"id\": *\"[^\"]*' | head -1 | cut -d'\"' -f4)"
