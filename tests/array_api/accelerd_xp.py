"""The namespace of a client as a module, which data-apis/array-api-tests imports: its name is `accelerd_xp.xp`."""

import os

from accelerd import Client

xp = Client(os.environ.get("ACCELERD_SERVER"), timeout=60).xp
