"""Client of accelerd: embed, search and cluster code, numpy in and out.

from accelerd import Client

client = Client("localhost:7433")
vectors = client.embed(["parse a date", "def parse_date(s): ..."])
"""

from ._client import Client, Clusters, Similar, Tokens
from ._collection import Collection, Hit, Point
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

__all__ = [
    "AccelerdError",
    "AlreadyExistsError",
    "BusyError",
    "Client",
    "Clusters",
    "Collection",
    "DeadlineError",
    "FieldViolation",
    "Hit",
    "InvalidArgumentError",
    "NotFoundError",
    "Point",
    "Similar",
    "Tokens",
    "UnavailableError",
]
