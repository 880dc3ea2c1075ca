//! The kernels of the encoder, what each takes, and which one fits.

use bytemuck::{Pod, Zeroable};

use crate::{cuda::Kernel, ops::encode::Placement};

/// The type of elements, as kernels number them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Format {
    /// binary32.
    F32,
    /// binary16.
    F16,
    /// bfloat16.
    Bf16,
}

impl Format {
    /// Bytes of an element.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// What the residual is kept in: where norms stand before, layers add to it all the way, and 16 bits would round
    /// away what they add.
    pub(super) fn residual(self, placement: Placement) -> Self {
        match placement {
            Placement::After => self,
            Placement::Before => Self::F32,
        }
    }

    /// Columns of a tile, which is 128 bytes wide.
    pub(super) fn columns(self) -> usize {
        128 / self.bytes()
    }
}

/// A linear layer.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Linear {
    pub(super) x: u64,
    pub(super) weight: u64,
    pub(super) bias: u64,
    pub(super) out: u64,
    pub(super) rows: u32,
    pub(super) columns: u32,
    pub(super) steps: u32,
    pub(super) out_steps: u32,
    pub(super) activation: u32,
    pub(super) gated: u32,
    pub(super) backwards: u32,
    pub(super) unused: u32,
}

/// How a row is normalised: kind 0 leaves it, 1 is a layer norm, 2 an RMS norm.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Norm {
    pub(super) weight: u64,
    pub(super) bias: u64,
    pub(super) kind: u32,
    pub(super) epsilon: f32,
}

/// Of a linear layer that writes binary16 whatever its format is.
pub(super) const HALVES: u32 = 5;

/// Which words, positions, types and states are f32 where the format has 16 bits.
pub(super) const EXACT_WORDS: u32 = 1;
pub(super) const EXACT_POSITIONS: u32 = 2;
pub(super) const EXACT_KINDS: u32 = 4;
pub(super) const EXACT_OUT: u32 = 8;

/// The first states.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Embedding {
    pub(super) ids: u64,
    pub(super) types: u64,
    pub(super) starts: u64,
    pub(super) words: u64,
    pub(super) positions: u64,
    pub(super) kinds: u64,
    pub(super) out: u64,
    pub(super) norm: Norm,
    pub(super) rows: u32,
    pub(super) texts: u32,
    pub(super) steps: u32,
    pub(super) width: u32,
    pub(super) offset: u32,
    pub(super) exact: u32,
}

/// Norms of rows.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Norms {
    pub(super) x: u64,
    pub(super) delta: u64,
    pub(super) out: u64,
    pub(super) sum: u64,
    pub(super) norm: Norm,
    pub(super) rows: u32,
    pub(super) steps: u32,
    pub(super) width: u32,
    pub(super) exact: u32,
    pub(super) backwards: u32,
    pub(super) unused: u32,
}

/// Norms and rotations of queries and keys.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Turns {
    pub(super) qkv: u64,
    pub(super) starts: u64,
    pub(super) query_weight: u64,
    pub(super) query_bias: u64,
    pub(super) key_weight: u64,
    pub(super) key_bias: u64,
    pub(super) table: u64,
    pub(super) texts: u32,
    pub(super) steps: u32,
    pub(super) heads: u32,
    pub(super) kv_heads: u32,
    pub(super) head: u32,
    pub(super) padded: u32,
    pub(super) dims: u32,
    pub(super) kind: u32,
    pub(super) together: u32,
    pub(super) epsilon: f32,
}

/// Attention.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Attention {
    pub(super) qkv: u64,
    pub(super) out: u64,
    pub(super) starts: u64,
    pub(super) items: u64,
    pub(super) slopes: u64,
    pub(super) relative: u64,
    pub(super) rows: u32,
    pub(super) texts: u32,
    pub(super) steps: u32,
    pub(super) out_steps: u32,
    pub(super) heads: u32,
    pub(super) kv_heads: u32,
    pub(super) share: u32,
    pub(super) head: u32,
    pub(super) padded: u32,
    pub(super) reach: u32,
    pub(super) causal: u32,
    pub(super) window: u32,
    pub(super) long_items: u32,
    pub(super) whole_items: u32,
    pub(super) middle_items: u32,
    pub(super) short_items: u32,
    pub(super) scale: f32,
    pub(super) wide: u32,
    pub(super) backwards: u32,
    pub(super) unused: u32,
}

/// One row of an answer.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Answer {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) dimensions: u32,
    pub(super) scale: u32,
    pub(super) start: u64,
    pub(super) reduce: u32,
    pub(super) output: u32,
    pub(super) normalize: u32,
    pub(super) unused: u32,
}

/// All rows of an answer.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Pool {
    pub(super) states: u64,
    pub(super) answers: u64,
    pub(super) out: u64,
    pub(super) scales: u64,
    pub(super) steps: u32,
    pub(super) unused: u32,
}

/// A weight on its way to tiles.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Pack {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) from_rows: u32,
    pub(super) from_columns: u32,
    pub(super) from_type: u32,
    pub(super) to_type: u32,
    pub(super) to_rows: u32,
    pub(super) steps: u32,
    pub(super) head: u32,
    pub(super) padded: u32,
    pub(super) half: u32,
    pub(super) column_head: u32,
    pub(super) column_padded: u32,
    pub(super) flat: u32,
}

pub(super) const fn kernel<T>(name: &'static str) -> Kernel {
    Kernel { name, params: const { &[size_of::<T>()] } }
}

/// A size of tile of the linear layers on Hopper: its kernels, and what they are launched with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) threads: u32,
    pub(super) shared_bytes: u32,
    /// Blocks that a multiprocessor holds.
    pub(super) each: usize,
    /// Blocks that share what they read: they have tiles one below the other.
    pub(super) together: usize,
    pub(super) f16: Kernel,
    pub(super) bf16: Kernel,
}

impl Tile {
    /// The kernel for elements of 16 bits.
    pub(super) fn kernel(&self, format: Format) -> Kernel {
        if format == Format::F16 { self.f16 } else { self.bf16 }
    }
}

const fn shared_bytes(stages: u32, rows: u32, columns: u32, panels: u32) -> u32 {
    stages * (rows + columns) * 128 + panels * 2048 + stages * 16
}

/// The most products for each byte of shared memory that is read.
pub(super) const WIDE: Tile = Tile {
    rows: 128,
    columns: 256,
    threads: 384,
    shared_bytes: shared_bytes(4, 128, 256, 16),
    each: 1,
    together: 2,
    f16: kernel::<Linear>("encode_linear_f16_wide"),
    bf16: kernel::<Linear>("encode_linear_bf16_wide"),
};
/// For many rows of columns that 192 divide, in not too many steps: what follows a product takes no time.
pub(super) const RELAY: Tile = Tile {
    rows: 128,
    columns: 192,
    threads: 384,
    shared_bytes: shared_bytes(5, 128, 192, 8) + 16,
    each: 1,
    together: 2,
    f16: kernel::<Linear>("encode_linear_f16_relay"),
    bf16: kernel::<Linear>("encode_linear_bf16_relay"),
};
/// For columns that 256 do not divide.
pub(super) const BROAD: Tile = Tile {
    rows: 128,
    columns: 192,
    threads: 384,
    shared_bytes: shared_bytes(4, 128, 192, 16),
    each: 1,
    together: 1,
    f16: kernel::<Linear>("encode_linear_f16_broad"),
    bf16: kernel::<Linear>("encode_linear_bf16_broad"),
};
/// For some thousand rows.
pub(super) const EVEN: Tile = Tile {
    rows: 128,
    columns: 128,
    threads: 288,
    shared_bytes: shared_bytes(3, 128, 128, 8),
    each: 2,
    together: 1,
    f16: kernel::<Linear>("encode_linear_f16_even"),
    bf16: kernel::<Linear>("encode_linear_bf16_even"),
};
/// For some hundred rows.
pub(super) const MIDDLE: Tile = Tile {
    rows: 64,
    columns: 64,
    threads: 160,
    shared_bytes: shared_bytes(6, 64, 64, 4),
    each: 2,
    together: 1,
    f16: kernel::<Linear>("encode_linear_f16_middle"),
    bf16: kernel::<Linear>("encode_linear_bf16_middle"),
};
/// For so few rows that reading the weights is all there is.
pub(super) const SMALL: Tile = Tile {
    rows: 64,
    columns: 16,
    threads: 160,
    shared_bytes: shared_bytes(10, 64, 16, 0),
    each: 2,
    together: 1,
    f16: kernel::<Linear>("encode_linear_f16_small"),
    bf16: kernel::<Linear>("encode_linear_bf16_small"),
};

/// Columns that kernels of rows take at most. Where fewer would gain nothing, a kernel stands in two places.
pub(super) const COLUMNS: [usize; 3] = [512, 1024, 4096];

pub(super) const PACK: Kernel = kernel::<Pack>("encode_pack");
/// By format, then by [`COLUMNS`].
pub(super) const EMBED: [[Kernel; 3]; 3] = [
    [
        kernel::<Embedding>("encode_embed_f32_1024"),
        kernel::<Embedding>("encode_embed_f32_1024"),
        kernel::<Embedding>("encode_embed_f32_4096"),
    ],
    [
        kernel::<Embedding>("encode_embed_f16_1024"),
        kernel::<Embedding>("encode_embed_f16_1024"),
        kernel::<Embedding>("encode_embed_f16_4096"),
    ],
    [
        kernel::<Embedding>("encode_embed_bf16_1024"),
        kernel::<Embedding>("encode_embed_bf16_1024"),
        kernel::<Embedding>("encode_embed_bf16_4096"),
    ],
];
/// By format, then by [`COLUMNS`].
pub(super) const NORM: [[Kernel; 3]; 3] = [
    [
        kernel::<Norms>("encode_norm_f32_1024"),
        kernel::<Norms>("encode_norm_f32_1024"),
        kernel::<Norms>("encode_norm_f32_4096"),
    ],
    [
        kernel::<Norms>("encode_norm_f16_512"),
        kernel::<Norms>("encode_norm_f16_1024"),
        kernel::<Norms>("encode_norm_f16_4096"),
    ],
    [
        kernel::<Norms>("encode_norm_bf16_512"),
        kernel::<Norms>("encode_norm_bf16_1024"),
        kernel::<Norms>("encode_norm_bf16_4096"),
    ],
];
/// The same for few rows of at most [`COLUMNS`]`[1]` numbers.
pub(super) const EMBED_EARLY: [[Kernel; 2]; 3] = [
    [EMBED[0][0]; 2],
    [kernel::<Embedding>("encode_embed_f16_1024_early"); 2],
    [kernel::<Embedding>("encode_embed_bf16_1024_early"); 2],
];
/// The same for few rows of at most [`COLUMNS`]`[1]` numbers.
pub(super) const NORM_EARLY: [[Kernel; 2]; 3] = [
    [NORM[0][0]; 2],
    [kernel::<Norms>("encode_norm_f16_512_early"), kernel::<Norms>("encode_norm_f16_1024_early")],
    [kernel::<Norms>("encode_norm_bf16_512_early"), kernel::<Norms>("encode_norm_bf16_1024_early")],
];
/// By format, then by [`COLUMNS`].
pub(super) const POOL: [[Kernel; 3]; 3] = [
    [
        kernel::<Pool>("encode_pool_f32_1024"),
        kernel::<Pool>("encode_pool_f32_1024"),
        kernel::<Pool>("encode_pool_f32_4096"),
    ],
    [
        kernel::<Pool>("encode_pool_f16_1024"),
        kernel::<Pool>("encode_pool_f16_1024"),
        kernel::<Pool>("encode_pool_f16_4096"),
    ],
    [
        kernel::<Pool>("encode_pool_bf16_1024"),
        kernel::<Pool>("encode_pool_bf16_1024"),
        kernel::<Pool>("encode_pool_bf16_4096"),
    ],
];
/// By format.
pub(super) const TURN: [Kernel; 3] =
    [kernel::<Turns>("encode_turn_f32"), kernel::<Turns>("encode_turn_f16"), kernel::<Turns>("encode_turn_bf16")];
/// By format: f32 arithmetic, any device.
pub(super) const LINEAR_EXACT: [Kernel; 3] = [
    kernel::<Linear>("encode_linear_f32_exact"),
    kernel::<Linear>("encode_linear_f16_exact"),
    kernel::<Linear>("encode_linear_bf16_exact"),
];
/// By format: f32 arithmetic, any device, any head.
pub(super) const ATTEND_EXACT: [Kernel; 3] = [
    kernel::<Attention>("encode_attend_f32_exact"),
    kernel::<Attention>("encode_attend_f16_exact"),
    kernel::<Attention>("encode_attend_bf16_exact"),
];
/// Heads that the tensor cores take.
const HEADS: [usize; 3] = [32, 64, 128];
/// By [`HEADS`]: of texts of at most 64 tokens, and of longer ones.
pub(super) const ATTEND: [[Kernel; 2]; 3] = [
    [kernel::<Attention>("encode_attend_32"), kernel::<Attention>("encode_attend_32_long")],
    [kernel::<Attention>("encode_attend_64"), kernel::<Attention>("encode_attend_64_long")],
    [kernel::<Attention>("encode_attend_128"), kernel::<Attention>("encode_attend_128_long")],
];

/// A kernel of attention of longer texts by warpgroups on Hopper, and what it is launched with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) kernel: Kernel,
    pub(super) threads: u32,
    pub(super) shared_bytes: u32,
}

/// Two teams of two warpgroups, each with stages and queries of its own.
const fn narrow_group(name: &'static str) -> Group {
    Group {
        kernel: kernel::<Attention>(name),
        threads: 640,
        shared_bytes: 2 * (2 * 4 * 72 * 128 + 2 * 136 * 128 + 1024),
    }
}

/// By [`HEADS`].
pub(super) const ATTEND_GROUP: [Group; 3] = [
    narrow_group("encode_attend_32_group"),
    narrow_group("encode_attend_64_group"),
    Group {
        kernel: kernel::<Attention>("encode_attend_128_group"),
        threads: 384,
        shared_bytes: 6 * 2 * 136 * 128 + 1024,
    },
];
/// Columns of heads that a warpgroup attends to at once, or more of a wide one.
const GROUP_COLUMNS: usize = 64;

/// Columns that a head takes: what the tensor cores' kernel wants where it takes it, else whole pieces of 16 bytes.
pub(super) fn padded_head(format: Format, head: usize) -> usize {
    match format {
        Format::F32 => head.next_multiple_of(4),
        Format::F16 | Format::Bf16 if head > 128 => head.next_multiple_of(8),
        Format::F16 | Format::Bf16 => head.next_power_of_two().max(32),
    }
}

/// The tensor cores' kernels for a head, where there are any. They take binary16.
pub(super) fn attend(format: Format, head: usize, capability: (u32, u32)) -> Option<&'static [Kernel; 2]> {
    let at = HEADS.iter().position(|padded| *padded == padded_head(format, head))?;
    (format != Format::F32 && capability.0 >= 8).then_some(&ATTEND[at])
}

/// The warpgroups' kernel for heads. Those that lie in the same 128 bytes have keys of their own; wide ones have no biases.
pub(super) fn attend_group(
    [heads, kv_heads, padded]: [usize; 3],
    biased: bool,
    capability: (u32, u32),
) -> Option<&'static Group> {
    let group = &ATTEND_GROUP[HEADS.iter().position(|head| *head == padded)?];
    let abreast = GROUP_COLUMNS / padded;
    let fits = match abreast {
        0 => !biased,
        1 => true,
        _ => heads == kv_heads && heads.is_multiple_of(abreast),
    };
    (capability.0 == 9 && fits).then_some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_padded_to_what_the_kernels_take() {
        let padded = |format| [8, 32, 33, 64, 96, 128, 130].map(|head| padded_head(format, head));
        assert_eq!(padded(Format::Bf16), [32, 32, 64, 64, 128, 128, 136]);
        assert_eq!(padded(Format::F32), [8, 32, 36, 64, 96, 128, 132]);
    }

    #[test]
    fn tensor_cores_attend_with_heads_that_they_take() {
        let takes = |format, head, major| attend(format, head, (major, 0)).map(|kernels| kernels[0].name);
        assert_eq!(takes(Format::Bf16, 20, 8), Some("encode_attend_32"));
        assert_eq!(takes(Format::F16, 128, 9), Some("encode_attend_128"));
        assert_eq!([takes(Format::F32, 64, 9), takes(Format::F16, 160, 9), takes(Format::Bf16, 64, 7)], [None; 3]);
    }

    #[test]
    fn warpgroups_attend_to_pairs_of_narrow_heads_and_to_wide_ones_without_biases() {
        let takes = |heads: [usize; 3], biased| attend_group(heads, biased, (9, 0)).map(|group| group.kernel.name);
        assert_eq!(takes([12, 12, 32], true), Some("encode_attend_32_group"));
        assert_eq!(takes([7, 1, 64], true), Some("encode_attend_64_group"));
        assert_eq!(takes([16, 8, 128], false), Some("encode_attend_128_group"));
        assert_eq!([takes([3, 3, 32], false), takes([4, 2, 32], false), takes([4, 4, 40], false)], [None; 3]);
        assert!(takes([4, 4, 128], true).is_none(), "biases");
        assert!(attend_group([4, 4, 64], false, (8, 0)).is_none(), "no warpgroups");
    }
}
