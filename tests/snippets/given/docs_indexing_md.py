import os

os.makedirs(f"{folder}/src")
with open(f"{folder}/src/pack.py", "w") as file:
    file.write("def pack():\n    pass\n")
