"""Embeds snippets as token ids, finds the ones most similar to a query, and clusters them."""

import io
import keyword
import tokenize
import zlib

from portalis_cuda import CUDAEmbeddingGenerator, cluster_code_snippets

VOCAB_SIZE = 50000
SNIPPETS = [
    "def area(width, height): return width * height",
    "def volume(width, height, depth): return width * height * depth",
    "for line in open(path): print(line.strip())",
    "for row in open(path): print(row.strip(), row)",
    "raise ValueError(message)",
    "raise TypeError(message) from error",
]


def token_ids(source: str) -> list[int]:
    """Return the ids of the names, keywords and operators of a snippet, by their hashes."""
    words = [token.string for token in tokenize.generate_tokens(io.StringIO(source).readline)]
    return [zlib.crc32(word.encode()) % VOCAB_SIZE for word in words if word.strip() or keyword.iskeyword(word)]


embedder = CUDAEmbeddingGenerator(vocab_size=VOCAB_SIZE, embedding_dim=768, max_sequence_length=512)
sequences = [token_ids(snippet) for snippet in SNIPPETS]
result = embedder.encode(sequences)
if not result.success:
    raise SystemExit(f"Embedding failed: {result.error}")
print(f"Generated embeddings: {result.embeddings.shape}")
print(f"Throughput: {result.metrics['throughput_seq_per_sec']:.0f} seq/sec")

indices, scores = embedder.find_similar(result.embeddings, result.embeddings, top_k=2)
for snippet, row, score in zip(SNIPPETS, indices, scores, strict=True):
    print(f"{score[1]:.2f}  {snippet!r} is most similar to {SNIPPETS[row[1]]!r}")

cluster_ids, centers = cluster_code_snippets(
    token_sequences=sequences,
    sequence_lengths=[len(sequence) for sequence in sequences],
    num_clusters=3,
)
print(f"Cluster assignments: {cluster_ids}, centers: {centers.shape}")
