"""Writes a small model of every architecture with random weights, and its last hidden states by PyTorch in f32.

    pip install "transformers==5.23.0" torch && python kernels/models/tests/encoders/make.py

Each folder holds what a published model's folder holds, `expected.json` with the token ids of some texts (one has as many
tokens as the model takes), and `states.f32`, the states of all their tokens. Weights are written as they are computed
with, rounded to half precision. JinaBERT is not part of transformers; its layers are written out below.
"""

import json
import math
import pathlib
import shutil

import torch
import transformers as tf
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

HERE = pathlib.Path(__file__).parent
VOCABULARY = 48
SHAPE = dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48)
ROPE = dict(rope_type="default")


def randomize(model: torch.nn.Module) -> None:
    """Weights large enough that every term matters, rounded to half precision."""
    torch.manual_seed(7)
    for name, weight in model.named_parameters():
        if weight.dim() == 1:
            is_factor = name.endswith("weight")
            values = torch.randn_like(weight) * 0.2 + (1.0 if is_factor else 0.0)
        elif "embed" in name or "relative_attention_bias" in name:
            values = torch.randn_like(weight)
        else:
            values = torch.randn_like(weight) * 1.5 / math.sqrt(weight.shape[-1])
        weight.data = values.half().float()


def texts(limit: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    lengths = [1, 2, 3, 17, limit]
    return [torch.randint(5, VOCABULARY, (n,), generator=generator).tolist() for n in lengths]


def states(model: torch.nn.Module, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        out = model(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long))
    return (out if isinstance(out, torch.Tensor) else out.last_hidden_state)[0]


def write(name: str, model: torch.nn.Module, limit: int, config: dict | None = None, shards: bool = False) -> None:
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    randomize(model)
    model.eval()
    batch = texts(limit)
    expected = torch.cat([states(model, ids) for ids in batch])
    if config is None:
        model.half().save_pretrained(folder, max_shard_size="20KB" if shards else "1GB")
    else:
        (folder / "config.json").write_text(json.dumps(config, indent=1))
        save_file({key: value.half().contiguous() for key, value in model.state_dict().items()}, folder / "model.safetensors")
    (folder / "states.f32").write_bytes(expected.float().numpy().astype("<f4").tobytes())
    (folder / "expected.json").write_text(json.dumps({"texts": batch, "hidden": expected.shape[1]}))
    print(name, tuple(expected.shape), sum(file.stat().st_size for file in folder.iterdir()))


class JinaLayer(torch.nn.Module):
    """A layer of JinaBERT version 2; `code` is the variant with normalised queries and keys."""

    def __init__(self, hidden: int, heads: int, inner: int, code: bool) -> None:
        super().__init__()
        nn = torch.nn
        self.heads, self.inner, self.code = heads, inner, code
        self.attention = nn.Module()
        self.attention.self = nn.Module()
        for part in ("query", "key", "value"):
            setattr(self.attention.self, part, nn.Linear(hidden, hidden))
        self.attention.output = nn.Module()
        self.attention.output.dense = nn.Linear(hidden, hidden)
        self.mlp = nn.Module()
        if code:
            self.attention.self.layer_norm_q = nn.LayerNorm(hidden)
            self.attention.self.layer_norm_k = nn.LayerNorm(hidden)
            self.layer_norm_1, self.layer_norm_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.mlp.up_gated_layer = nn.Linear(hidden, 2 * inner, bias=False)
            self.mlp.down_layer = nn.Linear(inner, hidden)
        else:
            self.attention.output.LayerNorm = nn.LayerNorm(hidden)
            self.mlp.gated_layers = nn.Linear(hidden, 2 * inner, bias=False)
            self.mlp.wo = nn.Linear(inner, hidden)
            self.mlp.layernorm = nn.LayerNorm(hidden)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        own = self.attention.self
        query, key, value = own.query(x), own.key(x), own.value(x)
        if self.code:
            query, key = own.layer_norm_q(query), own.layer_norm_k(key)
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        query, key, value = split(query), split(key), split(value)
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + bias
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
        x = x + self.attention.output.dense(mixed)
        gelu = torch.nn.functional.gelu
        if self.code:
            x = self.layer_norm_1(x)
            up, gate = self.mlp.up_gated_layer(x).split(self.inner, -1)
            return self.layer_norm_2(x + self.mlp.down_layer(up * gelu(gate)))
        x = self.attention.output.LayerNorm(x)
        gate, up = self.mlp.gated_layers(x).split(self.inner, -1)
        return self.mlp.layernorm(x + self.mlp.wo(gelu(gate) * up))


class Jina(torch.nn.Module):
    """JinaBERT version 2, with a number of heads that is no power of two, so that ALiBi slopes interleave two sequences."""

    def __init__(self, code: bool) -> None:
        super().__init__()
        nn = torch.nn
        hidden, heads = 36, 3
        self.slopes = [2.0 ** (-8 * (i + 1) / 2) for i in range(2)] + [2.0 ** (-8 / 4)]
        self.embeddings = nn.Module()
        self.embeddings.word_embeddings = nn.Embedding(VOCABULARY, hidden)
        self.embeddings.token_type_embeddings = nn.Embedding(2, hidden)
        self.embeddings.LayerNorm = nn.LayerNorm(hidden)
        self.encoder = nn.Module()
        self.encoder.layer = nn.ModuleList(JinaLayer(hidden, heads, 40, code) for _ in range(2))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        words = self.embeddings.word_embeddings(input_ids) + self.embeddings.token_type_embeddings.weight[0]
        x = self.embeddings.LayerNorm(words)
        place = torch.arange(input_ids.shape[1])
        distance = (place[:, None] - place[None, :]).abs()
        bias = -torch.tensor(self.slopes)[:, None, None] * distance
        for layer in self.encoder.layer:
            x = layer(x, bias)
        return x


def jina_config() -> dict:
    return dict(
        model_type="bert", architectures=["JinaBertModel"], vocab_size=VOCABULARY, hidden_size=36, num_hidden_layers=2,
        num_attention_heads=3, intermediate_size=40, max_position_embeddings=64, type_vocab_size=2, layer_norm_eps=1e-5,
        position_embedding_type="alibi", feed_forward_type="geglu",
    )


def tokenizer(folder: pathlib.Path) -> None:
    """Writes a tokeniser with padding and truncation set, as some published ones have, and modules."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", "def", "##s", "##ing", "the"]
    made = Tokenizer(models.WordPiece({piece: at for at, piece in enumerate(pieces)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.enable_padding(length=128)
    made.enable_truncation(128)
    made.save(str(folder / "tokenizer.json"))
    (folder / "modules.json").write_text(json.dumps([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({
        "word_embedding_dimension": 32, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False,
        "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False,
    }))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 16, "do_lower_case": False}))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({
        "prompts": {"query": "the ", "document": ""}, "default_prompt_name": None,
    }))


def main() -> None:
    torch.set_num_threads(1)
    eager = dict(attn_implementation="eager")
    write("bert", tf.BertModel(tf.BertConfig(**SHAPE, max_position_embeddings=40, **eager)), 40)
    tokenizer(HERE / "bert")
    write("roberta", tf.RobertaModel(tf.RobertaConfig(
        **SHAPE, max_position_embeddings=42, pad_token_id=1, type_vocab_size=1, layer_norm_eps=1e-5, **eager)), 40)
    write("xlm-roberta", tf.XLMRobertaForMaskedLM(tf.XLMRobertaConfig(
        **SHAPE, max_position_embeddings=42, pad_token_id=1, type_vocab_size=1, hidden_act="gelu_new", **eager,
    )).roberta, 40)
    write("mpnet", tf.MPNetModel(tf.MPNetConfig(**SHAPE, max_position_embeddings=152, pad_token_id=1, **eager)), 150)
    write("distilbert", tf.DistilBertModel(tf.DistilBertConfig(
        vocab_size=VOCABULARY, dim=32, n_layers=2, n_heads=2, hidden_dim=48, max_position_embeddings=40, **eager,
    )), 40, shards=True)
    write("nomic-bert", tf.NomicBertModel(tf.NomicBertConfig(
        **SHAPE, max_position_embeddings=64, rope_parameters=ROPE | dict(rope_theta=1000.0), **eager)), 64)
    write("modernbert", tf.ModernBertModel(tf.ModernBertConfig(
        **SHAPE | dict(num_hidden_layers=4), max_position_embeddings=64, local_attention=8, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2, **eager)), 64)
    decoder = SHAPE | dict(num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    decoder |= dict(rope_parameters=ROPE | dict(rope_theta=1000000.0), bos_token_id=0, eos_token_id=1, pad_token_id=0)
    write("qwen2", tf.Qwen2Model(tf.Qwen2Config(**decoder, **eager)), 64)
    write("qwen3", tf.Qwen3Model(tf.Qwen3Config(**decoder, head_dim=16, **eager)), 64)
    write("llama", tf.LlamaModel(tf.LlamaConfig(**decoder, **eager)), 64)
    write("jina-bert", Jina(code=False), 64, jina_config())
    write("jina-bert-code", Jina(code=True), 64, jina_config())


if __name__ == "__main__":
    main()
