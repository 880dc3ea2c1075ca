"""Measures embedding calls with token ids through gRPC, with client and daemon on this machine, in the shapes of MiniLM-L6 and
BERT-base with random weights.

    python3 embed_calls.py --bin FOLDER --tokenizer TOKENIZER_JSON [--duration 1s] [--words]

--bin is the folder of accelerd and accelctl. Prints one JSON line for each figure. --words adds calls of 64 texts of 100 words.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from baseline_texts import daemon

HERE = Path(__file__).resolve().parent
SHAPES = {"minilm": (6, 384), "bert": (12, 768)}
LENGTHS = (32, 128, 512)
BATCHES = (1, 32, 512, 4096)
MOST_TOKENS = 1 << 19
IN_FLIGHT = "1,8"


def random_model(folder: Path, tokenizer: Path, shape: str) -> Path:
    layers, hidden = SHAPES[shape]
    made = [HERE / "random_bert.py", folder, tokenizer, "--layers", str(layers), "--hidden", str(hidden)]
    subprocess.run([sys.executable, *made], check=True)
    return folder


def measure(binaries: Path, address: str, duration: str, *what: str, in_flight: str = IN_FLIGHT) -> list[dict]:
    """The output of `accelctl bench embed` for each concurrency level."""
    flags = ["--server", f"http://{address}", "--json", "bench", "embed", "--model", "model"]
    flags += ["--duration", duration, "--concurrency", in_flight, *what]
    answer = subprocess.run([binaries / "accelctl", *flags], check=True, capture_output=True, text=True).stdout
    return json.loads(answer)["levels"]


def tell(levels: list[dict], of: dict) -> None:
    """Prints a line for each level; a failed call ends the run."""
    for level in levels:
        if level["failed"]:
            sys.exit(f"{of}: {level['failed']} calls failed, the first with {level['first_error']}")
        row = of | {"in_flight": level["concurrency"], "texts_per_s": round(level["items_per_second"])}
        row |= {key: round(level[key], 3) for key in ("p50_ms", "p99_ms", "calls_per_batch")}
        print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--duration", default="1s")
    parser.add_argument("--words", action="store_true")
    given = parser.parse_args()
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            model = random_model(Path(folder) / shape, given.tokenizer, shape)
            with daemon(given.bin, model, "bf16") as address:
                for tokens in LENGTHS:
                    for batch in (one for one in BATCHES if one * tokens <= MOST_TOKENS):
                        flags = ("--tokens", str(tokens), "--batch", str(batch))
                        levels = measure(given.bin, address, given.duration, *flags)
                        tell(levels, {"shape": shape, "tokens": tokens, "batch": batch})
                if given.words:
                    flags = ("--words", "100", "--batch", "64")
                    levels = measure(given.bin, address, given.duration, *flags, in_flight="1,8,32")
                    tell(levels, {"shape": shape, "words": 100, "batch": 64})


if __name__ == "__main__":
    main()
