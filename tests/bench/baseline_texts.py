"""Measures embedding of texts, from strings to numpy arrays: the daemon through the Python client, and sentence-transformers
on the same device. The texts are the functions of this machine's Python standard library.

    python3 baseline_texts.py --model FOLDER --bin FOLDER [--client FOLDER] [--texts N] [--device cuda]

--model is a sentence-transformers folder, such as all-MiniLM-L6-v2 from `tests/minilm/model.py`. If its weights (90 MB) are
missing, random weights of the same shape take their place; the speed is the same. If sentence-transformers is not installed,
its `encode` is reproduced with transformers, and the output says so: texts sorted by length, batches padded to the longest
text, the fast tokeniser, SDPA, mean pooling, normalisation.

Prints one JSON line for each figure: median and quartiles in seconds of passes over all texts. Candidates alternate, after one
warm-up pass each.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
SKIPPED = ("test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages", "turtledemo")
ROUNDS = 5
MAX_TOKENS = 256
# Texts in one message to the daemon.
TEXTS_A_MESSAGE = 256
START_TIMEOUT = 180.0
LEAST_COSINE = 0.99


def functions(library: Path) -> Iterator[str]:
    """The source of every function of a library."""
    for path in sorted(library.rglob("*.py")):
        if any(part in SKIPPED for part in path.relative_to(library).parts):
            continue
        source = path.read_text(errors="replace")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(source)
        except (SyntaxError, ValueError):
            continue
        lines = source.splitlines()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield "\n".join(lines[node.lineno - 1 : node.end_lineno])


def complete(model: Path, folder: Path) -> Path:
    """The model folder, with random weights if it has none."""
    if (model / "model.safetensors").exists():
        return model
    import torch
    from transformers import AutoConfig, AutoModel

    shutil.copytree(model, folder)
    torch.manual_seed(7)
    AutoModel.from_config(AutoConfig.from_pretrained(folder)).save_pretrained(folder)
    return folder


def baselines(model: Path, device: str, dtypes: list[str], batches: list[int]) -> Iterator[tuple[str, Callable]]:
    """Baselines by name, each a function from texts to vectors."""
    import torch

    for dtype in dtypes:
        encode, name = sentence_transformers(model, device, getattr(torch, dtype))
        for batch in batches:
            yield f"{name} {dtype} batch {batch}", lambda texts, encode=encode, batch=batch: encode(texts, batch)


def sentence_transformers(model: Path, device: str, dtype) -> tuple[Callable, str]:
    """sentence-transformers' `encode`, or its reproduction."""
    import torch

    try:
        from sentence_transformers import SentenceTransformer, __version__
    except ImportError:
        return as_sentence_transformers(model, device, dtype), "transformers, as sentence-transformers would"
    options = {"attn_implementation": "sdpa"}
    loaded = SentenceTransformer(str(model), device=device, model_kwargs=options).to(dtype).eval()
    loaded.max_seq_length = MAX_TOKENS

    @torch.inference_mode()
    def encode(texts: list[str], batch: int):
        made = loaded.encode(texts, batch_size=batch, normalize_embeddings=True, show_progress_bar=False)
        return made.astype("float32")

    return encode, f"sentence-transformers {__version__}"


def as_sentence_transformers(model: Path, device: str, dtype) -> Callable:
    """Texts sorted by length, the longest first; padded batches; mean pooling; normalisation; one copy to the host."""
    import numpy
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    encoder = AutoModel.from_pretrained(model, attn_implementation="sdpa").to(device, dtype).eval()

    @torch.inference_mode()
    def encode(texts: list[str], batch: int):
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        vectors = []
        for at in range(0, len(texts), batch):
            part = [texts[i] for i in order[at : at + batch]]
            options = {"padding": True, "truncation": True, "max_length": MAX_TOKENS, "return_tensors": "pt"}
            inputs = tokenizer(part, **options).to(device)
            states = encoder(**inputs).last_hidden_state
            mask = inputs["attention_mask"].unsqueeze(-1).to(states.dtype)
            means = (states * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
            vectors.append(torch.nn.functional.normalize(means))
        sorted_back = numpy.empty(len(texts), int)
        sorted_back[order] = numpy.arange(len(texts))
        return torch.cat(vectors).float().cpu().numpy()[sorted_back]

    return encode


@contextlib.contextmanager
def daemon(binaries: Path, model: Path, precision: str) -> Iterator[str]:
    """A daemon that may load models from the model's parent folder; yields its address."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    main, admin, health = (f"127.0.0.1:{one.getsockname()[1]}" for one in held)
    for one in held:
        one.close()
    with tempfile.TemporaryDirectory() as folder:
        settings, log = Path(folder) / "accelerd.toml", Path(folder) / "log"
        loaded = f'{{ name = "model", path = {json.dumps(str(model))}, precision = "{precision}" }}'
        beside = json.dumps(str(model.parent))
        settings.write_text(f'[models]\nfolders = [{beside}]\npreload = [{loaded}]\n[drain]\nendpoint_delay = "0s"\n')
        flags = ["--config", settings, "--listen", main]
        flags += ["--set", f"server.admin_listen={admin}", "--set", f"server.health_listen={health}"]
        with open(log, "w") as written:
            running = subprocess.Popen([binaries / "accelerd", "serve", *flags], stdout=written, stderr=written)
            try:
                ask = [binaries / "accelerd", "health", "--address", health, "--service", "readiness"]
                until = time.monotonic() + START_TIMEOUT
                while subprocess.run(ask, capture_output=True).returncode != 0:
                    if running.poll() is not None or time.monotonic() > until:
                        sys.exit(f"the daemon does not start:\n{log.read_text()}")
                    time.sleep(0.05)
                yield main
            finally:
                running.terminate()
                running.wait()


def ours(address: str) -> Callable:
    """Sends all texts in one stream; responses arrive in any order."""
    import numpy
    from accelerd import Client

    client = Client(address)

    def encode(texts: list[str]):
        parts = [texts[at : at + TEXTS_A_MESSAGE] for at in range(0, len(texts), TEXTS_A_MESSAGE)]
        made = [None] * len(parts)
        for outcome in client.embed_stream(parts, model="model", max_tokens=MAX_TOKENS):
            if outcome.error is not None:
                raise outcome.error
            made[outcome.sequence] = outcome.vectors
        return numpy.concatenate(made)

    return encode


def measure(ways: dict[str, Callable], texts: list[str], tokens: int) -> dict[str, float]:
    """Prints a line for each candidate and returns the medians. Candidates alternate in every round."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, encode in ways.items():
            begin = time.perf_counter()
            encode(texts)
            times[name].append(time.perf_counter() - begin)
    medians = {}
    for name, taken in times.items():
        q1, median, q3 = statistics.quantiles(taken, n=4)
        medians[name] = median
        row = {"way": name, "texts": len(texts), "median_s": round(median, 4), "q1_s": round(q1, 4), "q3_s": round(q3, 4)}
        row |= {"texts_per_s": round(len(texts) / median), "tokens_per_s": round(tokens / median)}
        print(json.dumps(row), flush=True)
    return medians


def agree(ways: dict[str, Callable], texts: list[str]) -> None:
    """Checks that all candidates return the first one's vectors; this also warms them up."""
    import numpy

    first = None
    for name, encode in ways.items():
        made = encode(texts)
        first = made if first is None else first
        least = float(numpy.einsum("ij,ij->i", first, made).min())
        print(json.dumps({"way": name, "min_cosine_with_accelerd": round(least, 5)}), flush=True)
        if made.shape != first.shape or not least >= LEAST_COSINE:
            sys.exit(f"{name} makes other vectors: least cosine {least}, expected {LEAST_COSINE}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--bin", type=Path, required=True, help="folder of the accelerd binary")
    parser.add_argument("--client", type=Path, default=HERE / "client", help="folder of the accelerd Python package")
    parser.add_argument("--texts", type=int, default=20_000, help="maximum number of texts")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="bf16", help="precision of accelerd on a GPU")
    parser.add_argument("--dtype", default="bfloat16", help="of the baselines")
    parser.add_argument("--batch", default="32,128,512", help="of the baselines")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    sys.path.insert(0, str(given.client))
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    import torch
    from transformers import AutoTokenizer

    texts = list(functions(Path(sysconfig.get_path("stdlib"))))
    random.Random(7).shuffle(texts)
    del texts[given.texts :]
    with tempfile.TemporaryDirectory() as folder:
        model = complete(given.model, Path(folder) / "model")
        cut = AutoTokenizer.from_pretrained(model)(texts, truncation=True, max_length=MAX_TOKENS)["input_ids"]
        lengths = [len(ids) for ids in cut]
        quarters = statistics.quantiles(lengths, n=4)
        device = torch.cuda.get_device_name() if given.device == "cuda" else "CPU"
        print(json.dumps({"device": device, "torch": torch.__version__, "texts": len(texts), "tokens": sum(lengths),
                          "token_quartiles": quarters, "longest": max(lengths)}), flush=True)
        with daemon(given.bin, model, given.precision) as address:
            ways = {f"accelerd {given.precision}": ours(address)}
            ways |= dict(baselines(model, given.device, given.dtype.split(","), [int(b) for b in given.batch.split(",")]))
            agree(ways, texts)
            medians = measure(ways, texts, sum(lengths))
    mine, *others = medians.values()
    print(json.dumps({"speedup_over_the_fastest_baseline": round(min(others) / mine, 2)}))


if __name__ == "__main__":
    main()
