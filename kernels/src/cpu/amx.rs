//! AMX: detection and permission of tile registers, the tile product, and the rounding of its operands.
//!
//! The instructions have no stable intrinsics, hence the assembly. Every block names the registers that it clobbers;
//! only the configuration outlives a block, never the contents of a register.
#![expect(clippy::unused_self, reason = "the existence of a value proves that the machine has the instructions")]

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

/// Returns true if the machine has AMX-BF16 and the system grants this process the tile state, which it must request.
///
/// AVX512-BF16, which every machine with AMX has, rounds the operands.
pub(super) fn is_available() -> bool {
    std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512bf16")
        && has_tiles()
        && is_permitted()
}

fn has_tiles() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    const BF16_AND_TILES: u32 = 1 << 22 | 1 << 24;
    const TILE_STATE: u64 = 0b11 << 17;
    if __cpuid(0).eax < 7 || __cpuid(1).ecx & OSXSAVE == 0 {
        return false;
    }
    // SAFETY: the OSXSAVE flag, checked above, says that the instruction is enabled.
    let state = unsafe { saved_state() };
    __cpuid_count(7, 0).edx & BF16_AND_TILES == BF16_AND_TILES && state & TILE_STATE == TILE_STATE
}

/// # Safety
/// The system has enabled XSAVE.
#[target_feature(enable = "xsave")]
unsafe fn saved_state() -> u64 {
    // SAFETY: the caller promises it.
    unsafe { _xgetbv(0) }
}

#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    /// From Linux' `asm/prctl.h`, and the number of the tile data state component.
    const ARCH_REQ_XCOMP_PERM: libc::c_int = 0x1023;
    const TILE_DATA: libc::c_ulong = 18;
    // SAFETY: the call only changes this process's permissions.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

fn as_bits(pairs: __m512bh) -> __m512i {
    // SAFETY: both types are 64 bytes and valid for every bit pattern.
    unsafe { std::mem::transmute(pairs) }
}

/// Rounds numbers to bfloat16: 32 of them to `to`, the next 32 to `step` bytes after that, and so on.
///
/// # Safety
/// [`is_available`] returned true. These places are valid for writes.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn round(numbers: &[f32], to: *mut u16, step: usize) {
    let chunks = numbers.chunks_exact(32);
    let rest = chunks.remainder();
    let mut to = to;
    for chunk in chunks {
        // SAFETY: 32 numbers are read and written.
        unsafe {
            let low = _mm512_loadu_ps(chunk.as_ptr());
            let high = _mm512_loadu_ps(chunk.as_ptr().add(16));
            _mm512_storeu_si512(to.cast(), as_bits(_mm512_cvtne2ps_pbh(high, low)));
        }
        to = to.wrapping_byte_add(step);
    }
    if !rest.is_empty() {
        let mask = u32::MAX >> (32 - rest.len());
        let from = rest.as_ptr();
        // SAFETY: masked lanes are neither read nor written.
        unsafe {
            let low = _mm512_maskz_loadu_ps((mask & 0xffff) as u16, from);
            let high = _mm512_maskz_loadu_ps((mask >> 16) as u16, from.wrapping_add(16));
            _mm512_mask_storeu_epi16(to.cast(), mask, as_bits(_mm512_cvtne2ps_pbh(high, low)));
        }
    }
}

/// The operand of `ldtilecfg`; here all eight registers are whole tiles.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// The tile registers of this thread, configured for the lifetime of this value. Not `Send`.
pub(super) struct TileRegisters(PhantomData<*const ()>);

impl TileRegisters {
    /// # Safety
    /// [`is_available`] returned true. No other value of this type exists on this thread.
    pub(super) unsafe fn configure() -> Self {
        let mut row_bytes = [0; 16];
        let mut rows = [0; 16];
        row_bytes[..8].fill(64);
        rows[..8].fill(16);
        let configuration = Configuration { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows };
        // SAFETY: the machine has the instruction, as the caller promises; it reads the 64 bytes of the configuration.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const configuration, options(nostack, readonly)) };
        Self(PhantomData)
    }

    /// Prefetches memory into the second-level cache.
    pub(super) fn prefetch(&self, from: *const u8, bytes: usize) {
        for line in (0..bytes).step_by(64) {
            // SAFETY: a prefetch does not fault on any address.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(from.wrapping_add(line).cast()) };
        }
    }

    /// Writes f32[16, 32] of `bias + rows * columns`, from one row and two columns of tiles.
    ///
    /// # Safety
    /// The pointers of `operands` and `out` are valid as their fields say, `out` for 16 rows, and `rows` for reads of
    /// `operands.depth` tiles.
    pub(super) unsafe fn multiply_16x32(&self, rows: *const u8, operands: &Operands, out: &Output) {
        // SAFETY: the registers are configured, since `self` exists; the pointers are the caller's promise.
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
                left = inout(reg) operands.columns[0] => _,
                right = inout(reg) operands.columns[1] => _,
                depth = inout(reg) operands.depth => _,
                bias = in(reg) operands.bias,
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

    /// Writes f32[32, 32] of `bias + rows * columns`, from two rows and two columns of tiles. Prefetches 256 bytes from
    /// `ahead` on per tile of depth.
    ///
    /// # Safety
    /// As for [`Self::multiply_16x32`], with 32 rows of `out`.
    pub(super) unsafe fn multiply_32x32(&self, rows: [*const u8; 2], operands: &Operands, out: &Output) {
        // SAFETY: the registers are configured, since `self` exists; the pointers are the caller's promise.
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
                ahead = inout(reg) operands.ahead => _,
                upper = inout(reg) rows[0] => _,
                lower = inout(reg) rows[1] => _,
                left = inout(reg) operands.columns[0] => _,
                right = inout(reg) operands.columns[1] => _,
                depth = inout(reg) operands.depth => _,
                bias = in(reg) operands.bias,
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

/// The operands of a tile product other than the rows.
pub(super) struct Operands {
    /// Depth of both operands in tiles, at least 1.
    pub(super) depth: usize,
    /// Each valid for reads of `depth` tiles.
    pub(super) columns: [*const u8; 2],
    /// The initial value of the sums, f32[32].
    pub(super) bias: *const f32,
    /// The address to prefetch from; need not be valid.
    pub(super) ahead: *const u8,
}

/// The output of a tile product: each row is valid for writes of 32 numbers.
pub(super) struct Output {
    pub(super) at: *mut f32,
    /// Bytes from row to row.
    pub(super) stride: usize,
}

impl Drop for TileRegisters {
    fn drop(&mut self) {
        // SAFETY: the machine has the instruction, or this value would not exist.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}
