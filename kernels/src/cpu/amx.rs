//! Tile registers (AMX): whether this process may use them, the one kernel written for them, and the rounding of what
//! they multiply.
//!
//! The instructions have no stable intrinsics, so they stand here in assembly. Every block names the registers that it
//! changes; what a register holds never outlives its block, only the configuration does.
#![expect(clippy::unused_self, reason = "that a value exists is the proof that its instructions do")]

use std::{
    arch::{
        asm,
        x86_64::{
            __cpuid, __cpuid_count, __m512bh, __m512i, _MM_HINT_T1, _mm_prefetch, _mm512_cvtne2ps_pbh, _mm512_loadu_ps,
            _mm512_mask_storeu_epi16, _mm512_maskz_loadu_ps, _mm512_storeu_si512, _xgetbv,
        },
    },
    marker::PhantomData,
};

/// Bytes of a tile: 16 rows of 64.
pub(super) const TILE: usize = 1024;

/// Whether the machine multiplies tiles of bfloat16, and the system lets this process do so: it keeps no room for tiles
/// before a process asks for it.
///
/// Numbers are rounded for tiles by AVX512-BF16, which every machine with tiles has.
pub(super) fn is_allowed() -> bool {
    std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512bf16")
        && has_tiles()
        && is_permitted()
}

fn has_tiles() -> bool {
    const SAVED_BY_SYSTEM: u32 = 1 << 27;
    const BF16_AND_TILES: u32 = 1 << 22 | 1 << 24;
    const TILE_STATE: u64 = 0b11 << 17;
    if __cpuid(0).eax < 7 || __cpuid(1).ecx & SAVED_BY_SYSTEM == 0 {
        return false;
    }
    // SAFETY: the flag above says that the instruction is there and enabled.
    let state = unsafe { saved_state() };
    __cpuid_count(7, 0).edx & BF16_AND_TILES == BF16_AND_TILES && state & TILE_STATE == TILE_STATE
}

/// # Safety
/// The system has enabled XSAVE.
#[target_feature(enable = "xsave")]
unsafe fn saved_state() -> u64 {
    // SAFETY: the caller's.
    unsafe { _xgetbv(0) }
}

#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    /// Of the kernel's `asm/prctl.h`, and the number of the tiles' state.
    const ARCH_REQ_XCOMP_PERM: libc::c_int = 0x1023;
    const TILE_DATA: libc::c_ulong = 18;
    // SAFETY: the call changes nothing but what this process may use.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

fn as_bits(pairs: __m512bh) -> __m512i {
    // SAFETY: both are 64 bytes of which every value is fit.
    unsafe { std::mem::transmute(pairs) }
}

/// Rounds numbers to bfloat16: 32 of them to `to`, the next 32 to `step` bytes behind it, and so on.
///
/// # Safety
/// [`is_allowed`] was true. As many numbers can be written there.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn round(numbers: &[f32], to: *mut u16, step: usize) {
    let chunks = numbers.chunks_exact(32);
    let rest = chunks.remainder();
    let mut to = to;
    for chunk in chunks {
        // SAFETY: 32 numbers are read and written.
        unsafe {
            let (low, high) = (_mm512_loadu_ps(chunk.as_ptr()), _mm512_loadu_ps(chunk.as_ptr().add(16)));
            _mm512_storeu_si512(to.cast(), as_bits(_mm512_cvtne2ps_pbh(high, low)));
        }
        to = to.wrapping_byte_add(step);
    }
    if !rest.is_empty() {
        let mask = u32::MAX >> (32 - rest.len());
        let from = rest.as_ptr();
        // SAFETY: lanes that are masked out are neither read nor written.
        unsafe {
            let low = _mm512_maskz_loadu_ps((mask & 0xffff) as u16, from);
            let high = _mm512_maskz_loadu_ps((mask >> 16) as u16, from.wrapping_add(16));
            _mm512_mask_storeu_epi16(to.cast(), mask, as_bits(_mm512_cvtne2ps_pbh(high, low)));
        }
    }
}

/// The configuration under which all eight registers are whole tiles.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// The registers of this thread, configured as long as this lives. Cannot leave the thread.
pub(super) struct Registers(PhantomData<*const ()>);

impl Registers {
    /// # Safety
    /// [`is_allowed`] was true. No other value of this type lives on this thread.
    pub(super) unsafe fn configure() -> Self {
        let (mut row_bytes, mut rows) = ([0; 16], [0; 16]);
        row_bytes[..8].fill(64);
        rows[..8].fill(16);
        let configuration = Configuration { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows };
        // SAFETY: the instruction is there, as the caller says, and reads 64 bytes.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const configuration, options(nostack, readonly)) };
        Self(PhantomData)
    }

    /// Asks for memory to come into the second cache.
    pub(super) fn prefetch(&self, from: *const u8, bytes: usize) {
        for line in (0..bytes).step_by(64) {
            // SAFETY: every machine has the instruction; it reads nothing and faults on no address.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(from.wrapping_add(line).cast()) };
        }
    }

    /// Writes `[16, 16]` f32 sums twice, side by side, for a tile of rows and two of columns: `bias + rows * columns`.
    ///
    /// # Safety
    /// What is said of the factors and of 16 rows of sums; as many tiles as the factors are deep can be read at `rows`.
    pub(super) unsafe fn one(&self, rows: *const u8, factors: &Factors, out: &Out) {
        // SAFETY: the registers are configured, since `self` lives; the caller's.
        unsafe {
            asm!(
                "tileloadd tmm0, [{bias} + {none}]",
                "tileloadd tmm1, [{bias} + {none} + 64]",
                "2:",
                "tileloadd tmm4, [{rows} + {line}]",
                "tileloadd tmm6, [{left} + {line}]",
                "tileloadd tmm7, [{right} + {line}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "add {rows}, {tile}",
                "add {left}, {tile}",
                "add {right}, {tile}",
                "dec {depth}",
                "jnz 2b",
                "tilestored [{out} + {stride}], tmm0",
                "tilestored [{out} + {stride} + 64], tmm1",
                rows = inout(reg) rows => _,
                left = inout(reg) factors.columns[0] => _,
                right = inout(reg) factors.columns[1] => _,
                depth = inout(reg) factors.depth => _,
                bias = in(reg) factors.bias,
                none = in(reg) 0_usize,
                out = in(reg) out.at,
                stride = in(reg) out.stride,
                line = in(reg) 64_usize,
                tile = const TILE,
                out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }

    /// The same for two tiles of rows. Asks for 256 bytes of what is ahead with every tile of depth.
    ///
    /// # Safety
    /// As of [`Self::one`], with 32 rows of sums.
    pub(super) unsafe fn two(&self, rows: [*const u8; 2], factors: &Factors, out: &Out) {
        // SAFETY: the registers are configured, since `self` lives; the caller's.
        unsafe {
            asm!(
                "tileloadd tmm0, [{bias} + {none}]",
                "tileloadd tmm1, [{bias} + {none} + 64]",
                "tileloadd tmm2, [{bias} + {none}]",
                "tileloadd tmm3, [{bias} + {none} + 64]",
                "2:",
                "tileloadd tmm6, [{left} + {line}]",
                "tileloadd tmm4, [{upper} + {line}]",
                "prefetcht1 [{ahead}]",
                "tileloadd tmm7, [{right} + {line}]",
                "prefetcht1 [{ahead} + 64]",
                "tileloadd tmm5, [{lower} + {line}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "prefetcht1 [{ahead} + 128]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetcht1 [{ahead} + 192]",
                "add {ahead}, 256",
                "add {upper}, {tile}",
                "add {lower}, {tile}",
                "add {left}, {tile}",
                "add {right}, {tile}",
                "dec {depth}",
                "jnz 2b",
                "tilestored [{out} + {stride}], tmm0",
                "tilestored [{out} + {stride} + 64], tmm1",
                "tilestored [{below} + {stride}], tmm2",
                "tilestored [{below} + {stride} + 64], tmm3",
                ahead = inout(reg) factors.ahead => _,
                upper = inout(reg) rows[0] => _,
                lower = inout(reg) rows[1] => _,
                left = inout(reg) factors.columns[0] => _,
                right = inout(reg) factors.columns[1] => _,
                depth = inout(reg) factors.depth => _,
                bias = in(reg) factors.bias,
                none = in(reg) 0_usize,
                out = in(reg) out.at,
                below = in(reg) out.at.wrapping_byte_add(16 * out.stride),
                stride = in(reg) out.stride,
                line = in(reg) 64_usize,
                tile = const TILE,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

/// What rows are multiplied with.
pub(super) struct Factors {
    /// Tiles that both factors are deep, at least 1.
    pub(super) depth: usize,
    /// So many tiles can be read at each.
    pub(super) columns: [*const u8; 2],
    /// 32 numbers that the sums begin with can be read there.
    pub(super) bias: *const f32,
    /// What is asked for meanwhile; need not be readable.
    pub(super) ahead: *const u8,
}

/// Where sums go: 32 numbers can be written to each row.
pub(super) struct Out {
    pub(super) at: *mut f32,
    /// Bytes from row to row.
    pub(super) stride: usize,
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: the instruction is there, or there were no value.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}
