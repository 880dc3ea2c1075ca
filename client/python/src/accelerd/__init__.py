"""Client of accelerd: embed, search, cluster and parse code, numpy in and out.

from accelerd import Client

client = Client("localhost:7433")
vectors = client.embed(["parse a date", "def parse_date(s): ..."])
"""

from ._client import Client, Clusters, Ranked, Similar
from ._collection import Collection, Hit, Point
from ._embed import EmbedOptions, EmbedOutcome, Quantized, Tokens
from ._errors import (
    AccelerdError,
    AlreadyExistsError,
    BusyError,
    DeadlineError,
    FieldViolation,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from ._parse import Diagnostic, OutlineItem, Parsed, Token, Tree

__all__ = [
    "AccelerdError",
    "AlreadyExistsError",
    "BusyError",
    "Client",
    "Clusters",
    "Collection",
    "DeadlineError",
    "Diagnostic",
    "EmbedOptions",
    "EmbedOutcome",
    "FieldViolation",
    "Hit",
    "InvalidArgumentError",
    "NotFoundError",
    "OutlineItem",
    "Parsed",
    "Point",
    "Quantized",
    "Ranked",
    "Similar",
    "Token",
    "Tokens",
    "Tree",
    "UnavailableError",
]
