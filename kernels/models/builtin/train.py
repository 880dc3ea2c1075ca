"""Trains table.bin: `python3 kernels/models/builtin/train.py` (needs numpy and scipy; downloads through pip).

Word embeddings of all-MiniLM-L6-v2, projected to 256 dimensions and weighed by rarity, then trained so that the mean of
a docstring's tokens is near the mean of its function's: InfoNCE within batches, both ways, at 256, 128 and 64
dimensions at once (matryoshka). A share of the tokens is left out at random. Seeds are fixed; `--untrained` stops before the training.
"""

import argparse
import os
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import sparse

import pairs
import table
from evaluate import bags, unit
from tokenizer import Tokenizer, character_map

ROWS = 8192
NEW_WORDS = 1200
HEADS = (256, 128, 64)
EPOCHS = 12
BATCH = 512
TEMPERATURE = 0.05
RATE = 3e-3
QUERY_DROPOUT, CODE_DROPOUT = 0.2, 0.3


def vocabulary(texts, source):
    """The pieces to keep: all single letters and digits, then those most used, new words of code among them.

    Returns them with the pieces of the source each is made of.
    """
    plain = [piece for piece in source if piece.removeprefix("##").isascii() and piece.removeprefix("##").isalnum()]
    plain = [piece for piece in plain if piece.removeprefix("##").isalpha() or piece.removeprefix("##").isdigit()]
    old = Tokenizer(plain, character_map())
    words = Counter(word for text in texts for word in old.words(text))
    unknown = Counter({w: n for w, n in words.items() if w not in old.starts and w.isalpha() and 2 < len(w) <= 16})
    new = [word for word, _ in unknown.most_common(NEW_WORDS)]
    both = Tokenizer(plain + new, character_map())
    used = Counter()
    for word, n in words.items():
        used.update({i: n for i in both.pieces_of(word)})
    single = [i for i, piece in enumerate(plain + new) if len(piece.removeprefix("##")) == 1]
    kept = dict.fromkeys(single) | dict.fromkeys(i for i, _ in used.most_common(ROWS))
    kept = [(plain + new)[i] for i in list(kept)[:ROWS]]
    number = {piece: i for i, piece in enumerate(source)}
    made_of = [[number[p]] if p in number else [number[plain[i]] for i in old.pieces_of(p)] for p in kept]
    return kept, made_of


def start_rows(made_of, source_rows, counts):
    """The source's rows, centred, projected to the first principal components, and weighted by a / (a + frequency)."""
    rows = np.stack([source_rows[ids].mean(axis=0) for ids in made_of])
    rows -= rows.mean(axis=0)
    _, _, axes = np.linalg.svd(rows, full_matrices=False)
    rows = rows @ axes[:HEADS[0]].T
    frequency = counts / counts.sum()
    return (rows * (1e-3 / (1e-3 + frequency))[:, None]).astype(np.float32)


def contrast(queries, codes):
    """Symmetric InfoNCE: the loss and its gradients."""
    (q, q_length), (c, c_length) = unit(queries), unit(codes)
    scores = q @ c.T / TEMPERATURE
    scores = np.exp(scores - scores.max())
    forward, backward = scores / scores.sum(axis=1, keepdims=True), scores / scores.sum(axis=0, keepdims=True)
    loss = -np.log(np.diag(forward) * np.diag(backward) + 1e-30).mean() / 2
    slope = (forward + backward - 2 * np.eye(len(q), dtype=np.float32)) / (2 * len(q) * TEMPERATURE)
    dq, dc = slope @ c, slope.T @ q
    dq = (dq - q * (dq * q).sum(axis=1, keepdims=True)) / q_length
    dc = (dc - c * (dc * c).sum(axis=1, keepdims=True)) / c_length
    return loss, dq, dc


def thinned(bags_of_batch, dropout, random):
    """Token dropout for bags of tokens."""
    kept = random.random(bags_of_batch.nnz) >= dropout
    shape, indices, starts = bags_of_batch.shape, bags_of_batch.indices, bags_of_batch.indptr
    return sparse.csr_matrix((bags_of_batch.data * kept, indices, starts), shape=shape)


def train(rows, queries, codes, epochs=EPOCHS, report=print):
    """Adam over shuffled batches, with a linear warm-up and a cosine decay of the rate."""
    random = np.random.default_rng(7)
    mean, square = np.zeros_like(rows), np.zeros_like(rows)
    steps = epochs * (queries.shape[0] // BATCH)
    step = 0
    for epoch in range(epochs):
        order = random.permutation(queries.shape[0])
        losses = []
        for at in range(0, len(order) - BATCH + 1, BATCH):
            batch = order[at:at + BATCH]
            q_bag, c_bag = thinned(queries[batch], QUERY_DROPOUT, random), thinned(codes[batch], CODE_DROPOUT, random)
            q, c = q_bag @ rows, c_bag @ rows
            dq, dc = np.zeros_like(q), np.zeros_like(c)
            for head in HEADS:
                loss, head_dq, head_dc = contrast(q[:, :head], c[:, :head])
                dq[:, :head] += head_dq / len(HEADS)
                dc[:, :head] += head_dc / len(HEADS)
                losses.append(loss)
            slope = q_bag.T @ dq + c_bag.T @ dc
            step += 1
            rate = RATE * min(1, step / 50) * (0.5 + 0.5 * np.cos(np.pi * step / steps))
            mean += 0.1 * (slope - mean)
            square += 0.001 * (slope * slope - square)
            rows -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
        report(f"epoch {epoch + 1}: loss {np.mean(losses):.3f}")
    return rows


def main():
    """Downloads, prunes, trains, writes."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--untrained", action="store_true", help="write the table that training starts from")
    arguments.add_argument("--out", type=Path, default=pairs.HERE / "table.bin")
    arguments = arguments.parse_args()
    found = pairs.load("train") + pairs.load("tune")
    queries, codes = [pair[2] for pair in found], [pair[3] for pair in found]
    source_rows, source = pairs.minilm()
    pieces, made_of = vocabulary([*queries, *codes], source)
    tokenizer = Tokenizer(pieces)
    q_bags, c_bags = bags(tokenizer, queries), bags(tokenizer, codes)
    counts = np.asarray((q_bags.sum(axis=0) + c_bags.sum(axis=0))).ravel()
    rows = start_rows(made_of, source_rows, counts)
    began = time.monotonic()
    if not arguments.untrained:
        rows = train(rows, q_bags, c_bags)
        print(f"{len(found)} pairs, {time.monotonic() - began:.0f} s of training")
    size = table.write(arguments.out, pieces, character_map(), HEADS, rows)
    print(f"{arguments.out}: {len(pieces)} rows, {size} bytes")


if __name__ == "__main__":
    main()
