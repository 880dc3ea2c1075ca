"""Writes reference vectors by sentence-transformers into a model's folder: `texts.json` and `vectors.f32`, f32 [texts, dim].

    python kernels/models/tests/encoders/reference.py FOLDER

`cargo run --release -p accelerd-models --example compare -- FOLDER` then holds this project's vectors against them.
"""

import json
import pathlib
import random
import sys

from sentence_transformers import SentenceTransformer

WORDS = "parse the date of a file def return self list open_file HTTPServer naïve 数据 x1 -> == \n {key: value} \t 🙂".split(" ")


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    draw = random.Random(5)
    texts = ["", " ", "a", "def parse_date(s): ...", "Ünïcödé ﬁ ＡＢＣ", "[SEP] [MASK] \u0000 \u200b", "word " * 3000]
    texts += [" ".join(draw.choices(WORDS, k=draw.randint(1, 400))) for _ in range(60)]
    vectors = SentenceTransformer(str(folder), device="cpu").encode(texts, batch_size=1, convert_to_numpy=True)
    (folder / "texts.json").write_text(json.dumps(texts))
    (folder / "vectors.f32").write_bytes(vectors.astype("<f4").tobytes())
    print(vectors.shape)


if __name__ == "__main__":
    main()
