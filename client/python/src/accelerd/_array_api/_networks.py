"""Functions of neural networks, with PyTorch's names and attributes."""

from __future__ import annotations

from .._expression import Attribute
from .._lazy import Array, T
from ._indexing import Indexing
from ._namespace import Function, present


class Networks(Indexing[T]):
    """Functions that the standard does not have. Keyword arguments are PyTorch's, as `gelu(x, approximate="tanh")`."""

    __slots__ = ()

    # Operands in PyTorch's order, as `cross_entropy(logits, target, weight, label_smoothing=0.1)`.
    batch_norm = Function("batch_norm")
    bernoulli = Function("bernoulli")
    binary_cross_entropy = Function("binary_cross_entropy")
    binary_cross_entropy_with_logits = Function("binary_cross_entropy_with_logits")
    cosine_similarity = Function("cosine_similarity")
    cross_entropy = Function("cross_entropy")
    dropout = Function("dropout")
    embedding = Function("embedding")
    gather = Function("gather")
    group_norm = Function("group_norm")
    huber_loss = Function("huber_loss")
    instance_norm = Function("instance_norm")
    kl_div = Function("kl_div")
    l1_loss = Function("l1_loss")
    masked_fill = Function("masked_fill")
    mse_loss = Function("mse_loss")
    nll_loss = Function("nll_loss")
    normalize = Function("normalize")
    one_hot = Function("one_hot")
    smooth_l1_loss = Function("smooth_l1_loss")

    def layer_norm(
        self, x: Array, weight: Array | None = None, bias: Array | None = None, /, **attributes: Attribute
    ) -> T:
        """Normalise to mean 0 and variance 1 over the last dimension or `normalized_shape`, with `eps` added."""
        if weight is None and bias is not None:
            raise ValueError("bias: expected a weight before it, got none")
        return self._client.op("layer_norm", *present(x, weight, bias), **attributes)

    def rms_norm(self, x: Array, weight: Array | None = None, /, **attributes: Attribute) -> T:
        """Divide by the root of the mean square over the last dimension or `normalized_shape`, with `eps` added."""
        return self._client.op("rms_norm", *present(x, weight), **attributes)

    def scaled_dot_product_attention(
        self,
        query: Array,
        key: Array,
        value: Array,
        attn_mask: Array | None = None,
        /,
        *,
        lengths: Array | None = None,
        is_causal: Attribute = False,
        **attributes: Attribute,
    ) -> T:
        """Return `softmax(scale * query @ key.mT + attn_mask) @ value`, of which the softmax is never stored.

        A boolean `attn_mask` is true where a key takes part; `lengths` has the number of keys of each batch that do. A
        row in which none does is 0. Attributes are `scale`, by default 1 over the root of the last extent of `query`,
        and `enable_gqa`, if key and value have fewer heads.
        """
        counts = None if lengths is None else self.astype(lengths, self.int32)
        operands = present(query, key, value, attn_mask, counts)
        return self._client.op("scaled_dot_product_attention", *operands, is_causal=is_causal or None, **attributes)
