"""Measures transformers' BertModel on this GPU: bf16, SDPA, equal lengths, ids on the device, random weights.

    python3 baseline_encode.py [--quick] [--qwen] > baseline_encode.jsonl

With --qwen, measures four layers of Qwen3Model in the shape of Qwen3-Embedding 0.6B with last-token pooling instead.

Prints one JSON line for each figure: median and quartiles in milliseconds, by CUDA events.
"""

import argparse
import json
import statistics

import torch
from transformers import BertConfig, BertModel, Qwen3Config, Qwen3Model

DEVICE = torch.device("cuda")
SHAPES = {"minilm": (6, 384), "bert": (12, 768)}
LENGTHS = (32, 128, 512, 2048)
BATCHES = (1, 32, 128, 512, 2048)
QUICK_BATCHES = (1, 32, 512, 2048)


def timed(run, repeats, warm=3):
    """The milliseconds of each run, by CUDA events."""
    for _ in range(warm):
        run()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    for start, end in events:
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in events]


def model_of(layers, hidden):
    config = BertConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=12, intermediate_size=4 * hidden,
        max_position_embeddings=512, attn_implementation="sdpa",
    )
    return BertModel(config, add_pooling_layer=False).to(DEVICE, torch.bfloat16).eval()


def qwen():
    config = Qwen3Config(
        vocab_size=30522, hidden_size=1024, num_hidden_layers=4, num_attention_heads=16, num_key_value_heads=8, head_dim=128,
        intermediate_size=3072, max_position_embeddings=2048, attn_implementation="sdpa", use_cache=False,
    )
    return Qwen3Model(config).to(DEVICE, torch.bfloat16).eval()


@torch.inference_mode()
def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--qwen", action="store_true")
    options = arguments.parse_args()
    quick, shapes = options.quick, {"qwen": None} if options.qwen else SHAPES
    for name, shape in shapes.items():
        model = model_of(*shape) if shape else qwen()
        for tokens in LENGTHS:
            for batch in QUICK_BATCHES if quick else BATCHES:
                if tokens > model.config.max_position_embeddings or batch * tokens > (1 << 18 if quick else 1 << 19):
                    continue
                ids = torch.randint(1000, 30000, (batch, tokens), device=DEVICE)

                def run():
                    states = model(input_ids=ids).last_hidden_state
                    return torch.nn.functional.normalize(states.float().mean(dim=1) if shape else states[:, -1].float())

                times = timed(run, 10 if batch * tokens > 1 << 16 else 30)
                q1, median, q3 = statistics.quantiles(times, n=4)
                row = {"baseline": "transformers bf16 sdpa", "model": name, "tokens": tokens, "batch": batch}
                row |= {"median_ms": round(median, 4), "q1_ms": round(q1, 4), "q3_ms": round(q3, 4)}
                row |= {"texts_per_s": round(batch / median * 1e3), "mtokens_per_s": round(batch * tokens / median / 1e3, 3)}
                print(json.dumps(row), flush=True)


main()
