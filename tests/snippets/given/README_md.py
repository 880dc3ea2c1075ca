import os

os.makedirs(f"{folder}/src")
with open(f"{folder}/src/upload.py", "w") as file:
    file.write("def retry(upload):\n    for attempt in range(3):\n        upload()\n")
with open(f"{folder}/app.py", "w") as file:
    file.write("import os\n")
import numpy as np

np.save(f"{folder}/a.npy", np.float32([1.0, 2.0]))
np.save(f"{folder}/b.npy", np.float32([1.0, 2.0000002]))
for name in "xy":
    np.save(f"{folder}/{name}.npy", np.float64([3.0, 5.0]))
with open(f"{folder}/norm.py", "w") as file:
    file.write("import math\n\ndef norm(x: float, y: float) -> float:\n    return math.sqrt(x * x + y * y)\n")
with open(f"{folder}/suite.toml", "w") as file:
    file.write('[[check]]\nname = "norm"\nsubject = { python = "norm.py", function = "norm" }\nreference = { python = "norm.py", function = "norm" }\n')
