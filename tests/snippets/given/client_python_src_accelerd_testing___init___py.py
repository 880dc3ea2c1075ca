def norm(x: float, n: int) -> float:
    return x * float(n)
