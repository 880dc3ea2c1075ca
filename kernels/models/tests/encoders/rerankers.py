"""Writes a small cross-encoder of every architecture with random weights, pairs as its tokeniser makes them, and the scores
that PyTorch computes of them in f32.

    pip install "transformers==5.23.0" torch && python kernels/models/tests/encoders/rerankers.py

Each folder `reranker-*` holds what a published model's folder holds, and `expected.json`: a query with its documents, the
ids and types of each pair, cut by the tokeniser itself in the document only, and their logits. JinaBERT is not part of
transformers: its layers stand in make.py.
"""

import json
import pathlib
import shutil

import torch
import transformers as tf
from make import HERE, ROPE, SHAPE, Jina, jina_config, randomize
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

EAGER = dict(attn_implementation="eager")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
QUERY = "the def of a date"
DOCUMENTS = [
    "", "a", "parse the date", "The Defs, being: a (date)?", "[SEP] </s> <s>", "ünïcödé 数据", "zz " * 3,
    "return a date of the file " * 20, "x" * 200,
]


def words(specials: list[str]) -> Tokenizer:
    pieces = [*specials, *LETTERS, "def", "##s", "##ing", "the", "date", "of", "##e"]
    made = Tokenizer(models.WordPiece({piece: at for at, piece in enumerate(pieces)}, unk_token="[UNK]"))
    made.add_special_tokens(specials)
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made


def wordpiece() -> Tokenizer:
    made = words(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    made.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    # Set, as in some published tokenisers.
    made.enable_padding(length=128)
    made.enable_truncation(128)
    return made


def byte_level(specials: list[str], add_prefix_space: bool) -> Tokenizer:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: at for at, piece in enumerate([*specials, *letters, "Ġa", "Ġt", "he", "Ġthe", "at"])}
    merges = [("Ġ", "a"), ("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("a", "t")]
    made = Tokenizer(models.BPE(vocabulary, merges, unk_token=None))
    made.add_special_tokens(specials)
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    return made


def roberta() -> Tokenizer:
    made = byte_level(["<s>", "<pad>", "</s>", "<unk>"], False)
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return made


def modern() -> Tokenizer:
    made = byte_level(["[PAD]", "[CLS]", "[SEP]"], False)
    made.normalizer = normalizers.NFC()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return made


def unigram() -> Tokenizer:
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [(piece, 0.0) for piece in specials] + [("▁", -2.0), ("▁the", -3.0), ("▁date", -4.0)]
    pieces += [(letter, -5.0 - at / 10) for at, letter in enumerate(LETTERS)]
    made = Tokenizer(models.Unigram(pieces, unk_id=3))
    made.add_special_tokens(specials)
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.post_processor = processors.TemplateProcessing(
        single="<s>:0 $A:0 </s>:0", pair="<s>:0 $A:0 </s>:0 </s>:0 $B:0 </s>:0", special_tokens=[("<s>", 0), ("</s>", 2)])
    return made


def mpnet() -> Tokenizer:
    made = words(["<s>", "<pad>", "</s>", "[UNK]", "<mask>"])
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return made


class JinaReranker(torch.nn.Module):
    """JinaBERT with BERT's head."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = Jina(code=False)
        self.bert.pooler = torch.nn.Module()
        self.bert.pooler.dense = torch.nn.Linear(36, 36)
        self.classifier = torch.nn.Linear(36, 1)

    def forward(self, input_ids: torch.Tensor, token_type_ids: torch.Tensor) -> torch.Tensor:
        words = self.bert.embeddings.word_embeddings(input_ids) + self.bert.embeddings.token_type_embeddings(token_type_ids)
        x = self.bert.embeddings.LayerNorm(words)
        place = torch.arange(input_ids.shape[1])
        bias = -torch.tensor(self.bert.slopes)[:, None, None] * (place[:, None] - place[None, :]).abs()
        for layer in self.bert.encoder.layer:
            x = layer(x, bias)
        return self.classifier(torch.tanh(self.bert.pooler.dense(x[:, 0])))


def logit(model: torch.nn.Module, ids: list[int], types: list[int], typed: bool) -> float:
    inputs = dict(input_ids=torch.tensor([ids]))
    if typed:
        inputs["token_type_ids"] = torch.tensor([types])
    with torch.no_grad():
        out = model(**inputs)
    return (out if isinstance(out, torch.Tensor) else out.logits)[0, 0].item()


def write(name: str, model: torch.nn.Module, tokenizer: Tokenizer, limit: int, typed: bool = False,
          config: dict | None = None, **settings: object) -> None:
    folder = HERE / f"reranker-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    randomize(model)
    model.eval()
    tokenizer.save(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(limit, strategy="only_second")
    pairs = [tokenizer.encode(QUERY, document) for document in DOCUMENTS]
    assert {len(pair.ids) for pair in pairs} >= {limit}, "one pair is cut"
    logits = [logit(model, pair.ids, pair.type_ids, typed) for pair in pairs]
    if config is None:
        model.half().save_pretrained(folder)
        config = json.loads((folder / "config.json").read_text())
    else:
        tensors = {key: value.half().contiguous() for key, value in model.state_dict().items()}
        save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config | settings, indent=1))
    types = [pair.type_ids if typed else [0] * len(pair.ids) for pair in pairs]
    (folder / "expected.json").write_text(json.dumps({
        "query": QUERY, "documents": DOCUMENTS, "ids": [pair.ids for pair in pairs], "types": types, "logits": logits,
    }, ensure_ascii=False))
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(name, size, [round(score, 3) for score in logits])


def main() -> None:
    torch.set_num_threads(1)
    one = dict(num_labels=1, **EAGER)
    bytes_shape = SHAPE | dict(vocab_size=270)
    write("bert", tf.BertForSequenceClassification(tf.BertConfig(**SHAPE, max_position_embeddings=40, **one)),
          wordpiece(), 40, typed=True, sbert_ce_default_activation_function="torch.nn.modules.linear.Identity")
    write("roberta", tf.RobertaForSequenceClassification(tf.RobertaConfig(
        **bytes_shape, max_position_embeddings=66, pad_token_id=1, type_vocab_size=1, layer_norm_eps=1e-5, **one)),
        roberta(), 64)
    write("xlm-roberta", tf.XLMRobertaForSequenceClassification(tf.XLMRobertaConfig(
        **SHAPE, max_position_embeddings=42, pad_token_id=1, type_vocab_size=1, layer_norm_eps=1e-5, **one)),
        unigram(), 40, sentence_transformers={"activation_fn": "torch.nn.modules.activation.Sigmoid", "version": "4.1.0"})
    write("mpnet", tf.MPNetForSequenceClassification(tf.MPNetConfig(
        **SHAPE, max_position_embeddings=42, pad_token_id=1, **one)), mpnet(), 40)
    write("distilbert", tf.DistilBertForSequenceClassification(tf.DistilBertConfig(
        vocab_size=48, dim=32, n_layers=2, n_heads=2, hidden_dim=48, max_position_embeddings=40, **one)), wordpiece(), 40)
    modernbert = bytes_shape | dict(num_hidden_layers=4, max_position_embeddings=64, local_attention=8, pad_token_id=0,
                                    bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2, **one)
    write("modernbert", tf.ModernBertForSequenceClassification(tf.ModernBertConfig(**modernbert)), modern(), 64)
    write("modernbert-mean", tf.ModernBertForSequenceClassification(tf.ModernBertConfig(
        **modernbert, classifier_pooling="mean", classifier_bias=True, norm_bias=True, classifier_activation="silu",
    )), modern(), 64)
    write("nomic-bert", tf.NomicBertForSequenceClassification(tf.NomicBertConfig(
        **SHAPE, max_position_embeddings=64, rope_parameters=ROPE | dict(rope_theta=1000.0), **one)), wordpiece(), 64,
        typed=True)
    write("jina-bert", JinaReranker(), wordpiece(), 64, typed=True,
          config=jina_config() | dict(architectures=["JinaBertForSequenceClassification"], num_labels=1))


if __name__ == "__main__":
    main()
