import accelerd
import numpy as np

client, rows = accelerd.Client(), np.random.rand(5, 4)
