import numpy as np
from pathlib import Path

grad = param = exp_avg = exp_avg_sq = np.random.rand(4).astype(np.float32)
step = np.float32(1.0)
weights = np.random.rand(4, 3).astype(np.float32)
batches = [(np.random.rand(5, 4).astype(np.float32), np.random.rand(5, 3).astype(np.float32))] * 2
np.save("a.npy", np.random.rand(4, 6).astype(np.float32))
np.save("x.npy", np.random.rand(4, 6).astype(np.float32))


def safetensors(path, name, array):
    import json

    header = json.dumps({name: {"dtype": "F32", "shape": array.shape, "data_offsets": [0, array.nbytes]}}).encode()
    Path(path).write_bytes(len(header).to_bytes(8, "little") + header + array.tobytes())


safetensors("model.safetensors", "weight", np.random.rand(6, 6).astype(np.float32))
replaced["bench tensor"] = "bench tensor --case matmul --repetitions 1"
