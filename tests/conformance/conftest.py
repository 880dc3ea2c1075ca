"""Makes the Python client's tree importable without the rest of the client."""

import oracle
import tools

oracle.load_client(str(tools.CLIENT))
