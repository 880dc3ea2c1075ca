import os

os.makedirs("src")
with open("src/upload.py", "w") as file:
    file.write("def retry(upload):\n    for attempt in range(3):\n        upload()\n")
with open("app.py", "w") as file:
    file.write("import os\n")
import numpy as np

np.save("a.npy", np.float32([1.0, 2.0]))
np.save("b.npy", np.float32([1.0, 2.0000002]))
for name in "xy":
    np.save(f"{name}.npy", np.float64([3.0, 5.0]))
with open("norm.py", "w") as file:
    file.write("import math\n\ndef norm(x: float, y: float) -> float:\n    return math.sqrt(x * x + y * y)\n")
with open("suite.toml", "w") as file:
    file.write('[[check]]\nname = "norm"\nsubject = { python = "norm.py", function = "norm" }\nreference = { python = "norm.py", function = "norm" }\n')
