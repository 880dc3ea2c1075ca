"""The client's tree, without the rest of the client."""

import oracle
import tools

oracle.load_client(str(tools.CLIENT))
