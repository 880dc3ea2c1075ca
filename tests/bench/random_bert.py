"""Writes a BERT with random weights in the layout of published models, for benchmarks without the real weights. Needs only
Python's standard library.

    python3 random_bert.py FOLDER TOKENIZER_JSON [--layers 6] [--hidden 384]
"""

import argparse
import json
import math
import random
import shutil
import struct
from functools import cache
from pathlib import Path

VOCABULARY = 30522
POSITIONS = 512
HEADS = 12
# Random numbers that all matrices of a width repeat. A prime: rows of any width differ.
NUMBERS = 65_537


def shapes(layers: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """The name and shape of every tensor."""
    all_of_them: dict[str, tuple[int, ...]] = {}

    def linear(name: str, out: int, into: int) -> None:
        all_of_them[f"{name}.weight"] = (out, into)
        all_of_them[f"{name}.bias"] = (out,)

    def norm(name: str) -> None:
        all_of_them[f"{name}.LayerNorm.weight"] = all_of_them[f"{name}.LayerNorm.bias"] = (hidden,)

    for name, rows in (("word", VOCABULARY), ("position", POSITIONS), ("token_type", 2)):
        all_of_them[f"embeddings.{name}_embeddings.weight"] = (rows, hidden)
    norm("embeddings")
    for layer in range(layers):
        at = f"encoder.layer.{layer}"
        for name in ("query", "key", "value"):
            linear(f"{at}.attention.self.{name}", hidden, hidden)
        linear(f"{at}.attention.output.dense", hidden, hidden)
        norm(f"{at}.attention.output")
        linear(f"{at}.intermediate.dense", 4 * hidden, hidden)
        linear(f"{at}.output.dense", hidden, 4 * hidden)
        norm(f"{at}.output")
    return all_of_them


@cache
def normal_numbers(width: int) -> bytes:
    """Half-precision numbers that preserve the scale of activations in a product over this width."""
    generator = random.Random(width)
    scale = 1 / math.sqrt(width)
    return struct.pack(f"<{NUMBERS}e", *(generator.gauss(0, scale) for _ in range(NUMBERS)))


def values(name: str, shape: tuple[int, ...]) -> bytes:
    """Identity norms, zero biases, and weights that preserve the scale of activations."""
    size = 2 * math.prod(shape)
    if name.endswith("LayerNorm.weight"):
        return struct.pack("<e", 1.0) * shape[0]
    if len(shape) == 1:
        return bytes(size)
    block = normal_numbers(shape[-1])
    # Each tensor starts elsewhere in the numbers.
    start = 2 * random.Random(name).randrange(NUMBERS)
    return (block * (2 + size // len(block)))[start : start + size]


def write(path: Path, tensors: dict[str, tuple[int, ...]]) -> None:
    """Writes safetensors: the length of a JSON header, the header, the data."""
    header, end = {}, 0
    for name, shape in tensors.items():
        start, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in tensors.items():
            file.write(values(name, shape))


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("tokenizer", type=Path)
    arguments.add_argument("--layers", type=int, default=6)
    arguments.add_argument("--hidden", type=int, default=384)
    given = arguments.parse_args()
    (given.folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    shutil.copy(given.tokenizer, given.folder / "tokenizer.json")
    config = {
        "architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu", "layer_norm_eps": 1e-12,
        "hidden_size": given.hidden, "intermediate_size": 4 * given.hidden, "num_hidden_layers": given.layers,
        "num_attention_heads": HEADS, "vocab_size": VOCABULARY, "type_vocab_size": 2,
        "max_position_embeddings": POSITIONS, "position_embedding_type": "absolute",
    }
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (path, kind) in enumerate(kinds)
    ]
    pooling = {"word_embedding_dimension": given.hidden, "pooling_mode_mean_tokens": True}
    for name, content in (("config", config), ("modules", modules), ("1_Pooling/config", pooling)):
        (given.folder / f"{name}.json").write_text(json.dumps(content))
    write(given.folder / "model.safetensors", shapes(given.layers, given.hidden))


main()
