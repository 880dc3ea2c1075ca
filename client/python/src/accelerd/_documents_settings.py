"""The collection of the documents of another library."""

from __future__ import annotations

from typing import NamedTuple

from ._choices import Metric


class DocumentSettings(NamedTuple):
    """A collection of documents, which is created with the first of them."""

    name: str
    #: The model that embeds texts; empty if documents have vectors.
    model: str = ""
    #: Dimensions of the vectors; 0 means those of the first.
    dimensions: int = 0
    metric: Metric = "cosine"
    #: The payload field of the text, and whether a full-text index is made of it.
    text_field: str = "text"
    hybrid: bool = False
    #: Whether documents may have neither a vector nor a model that computes it. Searches leave them out.
    may_lack_vectors: bool = False
