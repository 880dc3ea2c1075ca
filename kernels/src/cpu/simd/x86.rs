//! AVX-512 and AVX2 vectors.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use std::arch::x86_64::{
    __m256, __m512, _CMP_EQ_OQ, _CMP_NLE_UQ, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _MM_HINT_T1, _mm_add_ps,
    _mm_add_ss, _mm_cvtss_f32, _mm_max_ps, _mm_max_ss, _mm_movehl_ps, _mm_prefetch, _mm_shuffle_ps, _mm256_add_epi32,
    _mm256_add_ps, _mm256_castps256_ps128, _mm256_castsi256_ps, _mm256_cmp_ps, _mm256_cvtps_epi32, _mm256_div_ps,
    _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_max_ps, _mm256_min_ps, _mm256_movemask_ps,
    _mm256_mul_ps, _mm256_round_ps, _mm256_set1_epi32, _mm256_set1_ps, _mm256_slli_epi32, _mm256_storeu_ps,
    _mm256_sub_ps, _mm512_add_ps, _mm512_cmp_ps_mask, _mm512_div_ps, _mm512_fmadd_ps, _mm512_fnmadd_ps,
    _mm512_loadu_ps, _mm512_maskz_loadu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_rcp14_ps,
    _mm512_reduce_add_ps, _mm512_reduce_max_ps, _mm512_roundscale_ps, _mm512_scalef_ps, _mm512_set1_ps,
    _mm512_storeu_ps, _mm512_sub_ps,
};

use super::lanes::{Lanes, WithSimd};

/// # Safety
/// The machine has AVX-512F.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn with_avx512<C: WithSimd>(code: C) -> C::Out {
    code.run(Avx512(()))
}

/// # Safety
/// The machine has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn with_avx2<C: WithSimd>(code: C) -> C::Out {
    code.run(Avx2(()))
}

/// Exists only inside [`with_avx512`].
#[derive(Clone, Copy)]
struct Avx512(());

/// Exists only inside [`with_avx2`].
#[derive(Clone, Copy)]
struct Avx2(());

impl Lanes for Avx512 {
    type Vector = __m512;
    const WIDTH: usize = 16;
    const PANEL: usize = 3;
    const ROWS: usize = 8;
    const HAS_FMA: bool = true;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        // SAFETY: the machine has the instruction, or `self` would not exist. So for all below.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m512 {
        // SAFETY: the caller promises it.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, count: usize) -> __m512 {
        // SAFETY: lanes that are masked out are not read.
        unsafe { _mm512_maskz_loadu_ps(!(u16::MAX << count), from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, x: __m512) {
        // SAFETY: the caller promises it.
        unsafe { _mm512_storeu_ps(to, x) }
    }

    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: as in `splat`.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: as in `splat`.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: as in `splat`.
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: as in `splat`.
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: as in `splat`.
        unsafe { _mm512_div_ps(a, b) }
    }

    /// A reciprocal estimate within 2^-14, refined by one Newton-Raphson step.
    #[inline(always)]
    fn quotient(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: as in `splat`.
        unsafe {
            let near = _mm512_rcp14_ps(b);
            let guess = _mm512_mul_ps(a, near);
            _mm512_fmadd_ps(_mm512_fnmadd_ps(guess, b, a), near, guess)
        }
    }

    #[inline(always)]
    fn round(self, a: __m512) -> __m512 {
        // SAFETY: as in `splat`.
        unsafe { _mm512_roundscale_ps::<0>(a) }
    }

    #[inline(always)]
    fn power_of_two(self, a: __m512) -> __m512 {
        // SAFETY: as in `splat`.
        unsafe { _mm512_scalef_ps(_mm512_set1_ps(1.0), a) }
    }

    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: as in `splat`.
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: as in `splat`.
        unsafe { _mm512_min_ps(a, b) }
    }

    #[inline(always)]
    fn sum(self, x: __m512) -> f32 {
        // SAFETY: as in `splat`.
        unsafe { _mm512_reduce_add_ps(x) }
    }

    #[inline(always)]
    fn largest(self, x: __m512) -> f32 {
        // SAFETY: as in `splat`.
        unsafe { _mm512_reduce_max_ps(x) }
    }

    #[inline(always)]
    fn not_at_most(self, a: __m512, b: __m512) -> u32 {
        // SAFETY: as in `splat`.
        u32::from(unsafe { _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(a, b) })
    }

    #[inline(always)]
    fn equal(self, a: __m512, b: __m512) -> u32 {
        // SAFETY: as in `splat`.
        u32::from(unsafe { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b) })
    }

    #[inline(always)]
    fn prefetch(self, at: *const f32) {
        // SAFETY: a prefetch reads nothing and faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
    }
}

impl Lanes for Avx2 {
    type Vector = __m256;
    const WIDTH: usize = 8;
    const PANEL: usize = 2;
    const ROWS: usize = 6;
    const HAS_FMA: bool = true;

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        // SAFETY: the machine has the instruction, or `self` would not exist. So for all below.
        unsafe { _mm256_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m256 {
        // SAFETY: the caller promises it.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, count: usize) -> __m256 {
        let mut whole = [0.0_f32; 8];
        // SAFETY: `count` numbers can be read there, and fewer than 8 are written; then 8 are read from the array.
        unsafe {
            std::ptr::copy_nonoverlapping(from, whole.as_mut_ptr(), count);
            _mm256_loadu_ps(whole.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, x: __m256) {
        // SAFETY: the caller promises it.
        unsafe { _mm256_storeu_ps(to, x) }
    }

    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: as in `splat`.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: as in `splat`.
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: as in `splat`.
        unsafe { _mm256_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: as in `splat`.
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: as in `splat`.
        unsafe { _mm256_div_ps(a, b) }
    }

    #[inline(always)]
    fn round(self, a: __m256) -> __m256 {
        // SAFETY: as in `splat`.
        unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }

    #[inline(always)]
    fn power_of_two(self, a: __m256) -> __m256 {
        // SAFETY: as in `splat`.
        unsafe {
            let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(a), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent))
        }
    }

    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: as in `splat`.
        unsafe { _mm256_max_ps(a, b) }
    }

    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: as in `splat`.
        unsafe { _mm256_min_ps(a, b) }
    }

    #[inline(always)]
    fn sum(self, x: __m256) -> f32 {
        // SAFETY: as in `splat`.
        unsafe {
            let four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }

    #[inline(always)]
    fn largest(self, x: __m256) -> f32 {
        // SAFETY: as in `splat`.
        unsafe {
            let four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }

    #[inline(always)]
    fn not_at_most(self, a: __m256, b: __m256) -> u32 {
        // SAFETY: as in `splat`.
        unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NLE_UQ>(a, b)) }.cast_unsigned()
    }

    #[inline(always)]
    fn equal(self, a: __m256, b: __m256) -> u32 {
        // SAFETY: as in `splat`.
        unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_EQ_OQ>(a, b)) }.cast_unsigned()
    }

    #[inline(always)]
    fn prefetch(self, at: *const f32) {
        // SAFETY: a prefetch reads nothing and faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
    }
}
