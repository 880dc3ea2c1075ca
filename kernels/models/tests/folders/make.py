"""Writes what transformers and model2vec make of the settings of a model's folder: `tokenizers.json` and `model2vec/`.

    pip install "transformers==5.24.0" "model2vec==0.10.0" && python kernels/models/tests/folders/make.py

A case of `tokenizers.json` is a folder of `../encoders` with other settings: values that are set in its tokenizer.json by JSON
pointer, and whole files. It has the token ids of each text by `AutoTokenizer`. `lowercase` cases have `do_lower_case` in
sentence_bert_config.json, for which sentence-transformers changes the normalizer as is done here. `model2vec/` is a model with
quantized vocabulary, and `expected.json` the vectors of texts by `StaticModel`.
"""

import json
import pathlib
import shutil
import tempfile

import numpy as np
from model2vec import StaticModel
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer

HERE = pathlib.Path(__file__).parent
ENCODERS = HERE.parent / "encoders"
TEXTS = [
    "", "The defs", "the defs", "Zoë déf é", "数据 the", "[CLS] the[SEP] [MASK]x", "the  <def>  x<def>s", "<pad> the <s> a</s>",
    "a b c d e f g h i j k l m n o p q r", " the x", "\tThe X", "İ ẞ K x",
]
BERT = {"tokenizer_class": "BertTokenizer"}
LOWER = "/normalizer/lowercase"


def token(content: str, **flags: bool) -> dict:
    plain = dict(content=content, single_word=False, lstrip=False, rstrip=False, normalized=True, special=False)
    return plain | flags


def case(name: str, base: str = "bert", pointers: dict | None = None, limit: int | None = None, lowercase: bool = False,
         **files: dict) -> dict:
    return dict(name=name, base=base, pointers=pointers or {}, limit=limit, lowercase=lowercase,
                files={f"{file}.json": content for file, content in files.items()})


def config(**settings: object) -> dict:
    return {"tokenizer_config": settings}


CASES = [
    case("cased", **config(**BERT, do_lower_case=False)),
    case("uncased", pointers={LOWER: False}, **config(**BERT, do_lower_case=True)),
    case("uncased by default", pointers={LOWER: False}, **config(**BERT)),
    case("the class of the architecture", pointers={LOWER: False}, **config(do_lower_case=True)),
    case("the class of fast tokenizers", **config(tokenizer_class="BertTokenizerFast", do_lower_case=False)),
    case("a class without settings", pointers={LOWER: False},
         **config(tokenizer_class="PreTrainedTokenizerFast", do_lower_case=True)),
    case("accents kept", **config(**BERT, strip_accents=False)),
    case("accents stripped", **config(**BERT, do_lower_case=False, strip_accents=True)),
    case("accents by case", pointers={"/normalizer/strip_accents": False}, **config(**BERT)),
    case("no Chinese characters", **config(**BERT, tokenize_chinese_chars=False)),
    case("mpnet cased", "reranker-mpnet", **config(tokenizer_class="MPNetTokenizer", do_lower_case=False)),
    case("truncated at the left", limit=6, **config(**BERT, truncation_side="left")),
    case("truncated at the right", limit=6, **config(**BERT)),
    case("truncated at the left by tokenizer.json", limit=6, pointers={"/truncation/direction": "Left"}, **config(**BERT)),
    case("truncated at the right in spite of tokenizer.json", limit=6, pointers={"/truncation/direction": "Left"},
         **config(**BERT, truncation_side="right")),
    case("an added token", **config(**BERT, added_tokens_decoder={"35": token("<def>")})),
    case("added tokens with flags", **config(**BERT, added_tokens_decoder={
        "35": token("<def>", lstrip=True, rstrip=True), "36": token("DE", single_word=True), "34": token("the", normalized=False)})),
    case("a special token", **config(**BERT, added_tokens_decoder={"35": token("<def>", special=True, normalized=False)})),
    case("flags of a known token", "reranker-mpnet",
         **config(tokenizer_class="MPNetTokenizer", added_tokens_decoder={
             "0": token("<s>", special=True, normalized=False, lstrip=True), "1": token("<pad>", special=True, normalized=False),
             "2": token("</s>", special=True, normalized=False), "3": token("[UNK]", special=True, normalized=False),
             "4": token("<mask>", special=True, normalized=False, lstrip=True)})),
    case("special tokens of the vocabulary", **config(tokenizer_class="PreTrainedTokenizerFast", mask_token="[MASK]",
                                                       sep_token=token("[SEP]", rstrip=True, special=True) | {"__type": "AddedToken"})),
    case("special tokens of the map", **config(tokenizer_class="PreTrainedTokenizerFast"),
         special_tokens_map={"cls_token": "[CLS]", "additional_special_tokens": ["the"]}),
    case("added tokens of their own file", **config(**BERT), added_tokens={"<def>": 35}),
    case("special tokens as text", **config(**BERT, split_special_tokens=True)),
    case("a space before a text", "reranker-roberta", **config(tokenizer_class="RobertaTokenizer", add_prefix_space=True)),
    case("no space before a text", "reranker-roberta", pointers={"/pre_tokenizer/add_prefix_space": True},
         **config(tokenizer_class="RobertaTokenizer", add_prefix_space=False)),
    case("flags of special tokens around a text", "reranker-roberta", **config(
        tokenizer_class="PreTrainedTokenizerFast", bos_token="<s>", eos_token="<unk>", add_bos_token=False, add_eos_token=True)),
    case("lower-cased by sentence-transformers", lowercase=True, **config(**BERT, do_lower_case=False)),
    case("lower-cased with accents", lowercase=True, **config(**BERT, do_lower_case=False, strip_accents=True)),
    case("lower-cased bytes", "reranker-roberta", lowercase=True, **config(tokenizer_class="RobertaTokenizer")),
]


def ids(case: dict) -> list[list[int]]:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copy(ENCODERS / case["base"] / "config.json", folder)
        tokenizer = json.loads((ENCODERS / case["base"] / "tokenizer.json").read_text())
        for pointer, value in case["pointers"].items():
            *path, last = pointer.split("/")[1:]
            place = tokenizer
            for part in path:
                place = place[part]
            assert last in place, pointer
            place[last] = value
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        for file, content in case["files"].items():
            (folder / file).write_text(json.dumps(content))
        made = AutoTokenizer.from_pretrained(folder)
    if case["lowercase"]:
        before = made.backend_tokenizer.normalizer
        made.backend_tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *([before] if before else [])])
    cut = dict(truncation=True, max_length=case["limit"]) if case["limit"] else dict(truncation=False)
    return [made(text, padding=False, **cut).input_ids for text in TEXTS]


def static_tokenizer() -> Tokenizer:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij", "def", "##s", "##ing", "the", "return"]
    made = Tokenizer(models.WordPiece({piece: at for at, piece in enumerate(pieces)}, unk_token="[UNK]"))
    made.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return made


def static() -> None:
    folder = HERE / "model2vec"
    shutil.rmtree(folder, ignore_errors=True)
    draw = np.random.default_rng(5)
    tokenizer = static_tokenizer()
    tokens = tokenizer.get_vocab_size()
    mapping = draw.integers(0, 7, tokens)
    weights = draw.uniform(0.2, 3.0, tokens)
    model = StaticModel(draw.normal(size=(7, 8)).astype(np.float32), tokenizer, weights=weights, token_mapping=mapping,
                        normalize=True, max_length=9, config={"model_type": "model2vec", "architectures": ["StaticModel"]})
    model.save_pretrained(folder)
    (folder / "README.md").unlink()
    made = StaticModel.from_pretrained(folder)
    texts = ["", "the", "The defs!", "a zzz b", "zzz", "[CLS] a [SEP]", "a b c d e f g h i j a b", "zzz " * 8 + "a b c d", "return " * 3,
             "x" * 200 + " a"]
    vectors = made.encode(texts)
    (folder / "expected.json").write_text(json.dumps({"texts": texts, "vectors": vectors.astype(float).tolist()}))
    print("model2vec", sorted(file.name for file in folder.iterdir()), vectors.shape)


def main() -> None:
    cases = [case | {"ids": ids(case)} for case in CASES]
    (HERE / "tokenizers.json").write_text(json.dumps({"texts": TEXTS, "cases": cases}, ensure_ascii=False))
    print(len(cases), "tokenizers")
    static()


if __name__ == "__main__":
    main()
