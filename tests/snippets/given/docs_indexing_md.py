import os

os.makedirs("src")
with open("src/pack.py", "w") as file:
    file.write("def pack():\n    pass\n")
