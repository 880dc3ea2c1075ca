"""Measures BERT-shaped encoders on this CPU: transformers' BertModel through torch in f32 and bf16, and onnxruntime in f32 and
with dynamic int8. Texts have equal lengths, weights are random; the output is the mean of the hidden states, normalised.

    python3 -m pip install torch transformers onnx onnxruntime onnxscript
    python3 baseline_encode_cpu.py --threads 2 > baseline_encode_cpu.jsonl

Prints one JSON line for each figure: texts per second of wall time (median, minimum, maximum) and milliseconds of CPU time per
text. Reports baselines that are not installed on standard error and skips them.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from transformers import BertConfig, BertModel

SHAPES = {"minilm": (6, 384), "bert": (12, 768)}
WORK = [(1, 32), (32, 32), (32, 128), (8, 256)]


class Embedder(torch.nn.Module):
    def __init__(self, layers, hidden):
        super().__init__()
        config = BertConfig(
            hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=12, intermediate_size=4 * hidden,
            max_position_embeddings=512, attn_implementation="sdpa",
        )
        self.model = BertModel(config, add_pooling_layer=False).eval()

    def forward(self, ids):
        states = self.model(input_ids=ids).last_hidden_state
        return torch.nn.functional.normalize(states.float().mean(dim=1))


def measure(run, repeats, **row):
    texts = row["texts"]
    for _ in range(2):
        run()
    wall, busy = [], time.process_time()
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        wall.append(time.perf_counter() - start)
    busy = (time.process_time() - busy) / repeats / texts * 1e3
    rate = [round(texts / seconds, 1) for seconds in (statistics.median(wall), max(wall), min(wall))]
    row |= {"texts_per_s": rate[0], "least": rate[1], "most": rate[2], "cpu_ms_per_text": round(busy, 3)}
    print(json.dumps(row), flush=True)


def with_torch(embedder, ids, dtype):
    def run():
        with torch.inference_mode():
            embedder(ids)

    embedder.to(dtype)
    return run


def sessions(embedder, threads, folder):
    """Sessions of onnxruntime, by precision."""
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    plain, small = str(folder / "plain.onnx"), str(folder / "int8.onnx")
    example = torch.ones((2, 16), dtype=torch.int64)
    axes = {"ids": {0: torch.export.Dim("batch", min=1, max=4096), 1: torch.export.Dim("tokens", min=2, max=512)}}
    torch.onnx.export(
        embedder.float(), (example,), plain, input_names=["ids"], dynamo=True, dynamic_shapes=axes, external_data=False
    )
    quantize_dynamic(plain, small, weight_type=QuantType.QInt8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return {
        name: onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        for name, path in (("f32", plain), ("int8", small))
    }


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--models", nargs="*", default=["minilm"])
    arguments.add_argument("--repeats", type=int, default=15)
    arguments = arguments.parse_args()
    torch.set_num_threads(arguments.threads)
    for name in arguments.models:
        embedder = Embedder(*SHAPES[name]).eval()
        with tempfile.TemporaryDirectory() as folder:
            runs = {}
            try:
                runs = sessions(embedder, arguments.threads, Path(folder))
            except ImportError as error:
                print(error, file=sys.stderr)
            for texts, tokens in WORK:
                ids = torch.randint(1000, 30000, (texts, tokens))
                row = {"model": name, "texts": texts, "tokens": tokens, "threads": arguments.threads}
                for dtype, precision in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
                    run = with_torch(embedder, ids, dtype)
                    measure(run, arguments.repeats, baseline="torch", precision=precision, **row)
                embedder.float()
                for precision, session in runs.items():
                    feed = {session.get_inputs()[0].name: ids.numpy()}
                    measure(
                        lambda: session.run(None, feed), arguments.repeats,
                        baseline="onnxruntime", precision=precision, **row,
                    )


main()
