//! Sums of scaled int8 rows, in AVX-512, AVX2 or plain Rust, all with the same bits.
//!
//! Each lane of an accumulator is one dimension, so vector width changes nothing of the order in which a dimension's
//! terms are added.

use super::Table;

/// Writes the sum of the rows `ids` of the table to `sum`, over the leading `sum.len()` dimensions.
///
/// # Panics
///
/// If an id is not a row of the table, or `sum` is longer than a row.
pub(super) fn sum_rows(table: &Table, ids: &[u32], sum: &mut [f32]) {
    assert!(sum.len() <= table.dim, "at most {} dimensions", table.dim);
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F.
            return unsafe { x86::sum_rows_avx512(table, ids, sum) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { x86::sum_rows_avx2(table, ids, sum) };
        }
    }
    sum_rows_portable(table, ids, sum, 0);
}

/// Sums the dimensions from `start` on.
fn sum_rows_portable(table: &Table, ids: &[u32], sum: &mut [f32], start: usize) {
    let sum = &mut sum[start..];
    sum.fill(0.0);
    if sum.is_empty() {
        return;
    }
    for &id in ids {
        let scale = table.scales[id as usize];
        let row = &table.values[id as usize * table.dim + start..][..sum.len()];
        for (sum, &value) in sum.iter_mut().zip(row) {
            *sum += scale * f32::from(value);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _MM_HINT_T0, _mm_cvtsi64_si128, _mm_prefetch, _mm256_add_ps, _mm256_cvtepi8_epi32, _mm256_cvtepi32_ps,
        _mm256_mul_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps, _mm512_add_ps, _mm512_cvtepi8_epi32,
        _mm512_cvtepi32_ps, _mm512_mul_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
    };

    use super::{Table, sum_rows_portable};

    /// The prefetch distance of rows, in tokens.
    const AHEAD: usize = 8;

    /// Blocks of 256, 128, 64 and 16 dimensions, whose sums stay in registers, then the rest one by one.
    #[target_feature(enable = "avx512f")]
    pub(super) fn sum_rows_avx512(table: &Table, ids: &[u32], sum: &mut [f32]) {
        let mut start = 0;
        while start + 16 <= sum.len() {
            start += match sum.len() - start {
                256.. => block_avx512::<16>(table, ids, start, sum),
                128.. => block_avx512::<8>(table, ids, start, sum),
                64.. => block_avx512::<4>(table, ids, start, sum),
                _ => block_avx512::<1>(table, ids, start, sum),
            };
        }
        sum_rows_portable(table, ids, sum, start);
    }

    /// Sums `16 * VECTORS` dimensions from `start` on; returns how many that are.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn block_avx512<const VECTORS: usize>(table: &Table, ids: &[u32], start: usize, sum: &mut [f32]) -> usize {
        let mut sums = [_mm512_setzero_ps(); VECTORS];
        for (index, &id) in ids.iter().enumerate() {
            prefetch(table, ids.get(index + AHEAD), start, 16 * VECTORS);
            let scale = _mm512_set1_ps(table.scales[id as usize]);
            let row = &table.values[id as usize * table.dim + start..][..16 * VECTORS];
            for (sum, &values) in sums.iter_mut().zip(row.as_chunks::<16>().0) {
                let values = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytemuck::cast(values)));
                *sum = _mm512_add_ps(*sum, _mm512_mul_ps(scale, values));
            }
        }
        for (out, lanes) in sum[start..][..16 * VECTORS].chunks_exact_mut(16).zip(sums) {
            // SAFETY: `out` has 16 floats, and the store needs no alignment.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr(), lanes) };
        }
        16 * VECTORS
    }

    /// Asks for the cache lines of `count` values of a row, if there is one, before they are needed: the table
    /// is as large as a core's second-level cache.
    #[target_feature(enable = "sse")]
    #[inline]
    fn prefetch(table: &Table, id: Option<&u32>, start: usize, count: usize) {
        let Some(&id) = id else { return };
        let row = table.values.as_ptr().wrapping_add(id as usize * table.dim + start);
        for line in (0..count).step_by(64) {
            _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(line));
        }
    }

    /// Blocks of 64 and 8 dimensions, whose sums stay in registers, then the rest one by one.
    #[target_feature(enable = "avx2")]
    pub(super) fn sum_rows_avx2(table: &Table, ids: &[u32], sum: &mut [f32]) {
        let mut start = 0;
        while start + 8 <= sum.len() {
            start += match sum.len() - start {
                64.. => block_avx2::<8>(table, ids, start, sum),
                _ => block_avx2::<1>(table, ids, start, sum),
            };
        }
        sum_rows_portable(table, ids, sum, start);
    }

    /// Sums `8 * VECTORS` dimensions from `start` on; returns how many that are.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn block_avx2<const VECTORS: usize>(table: &Table, ids: &[u32], start: usize, sum: &mut [f32]) -> usize {
        let mut sums = [_mm256_setzero_ps(); VECTORS];
        for (index, &id) in ids.iter().enumerate() {
            prefetch(table, ids.get(index + AHEAD), start, 8 * VECTORS);
            let scale = _mm256_set1_ps(table.scales[id as usize]);
            let row = &table.values[id as usize * table.dim + start..][..8 * VECTORS];
            for (sum, &values) in sums.iter_mut().zip(row.as_chunks::<8>().0) {
                let values = _mm_cvtsi64_si128(bytemuck::cast(values));
                let values = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(values));
                *sum = _mm256_add_ps(*sum, _mm256_mul_ps(scale, values));
            }
        }
        for (out, lanes) in sum[start..][..8 * VECTORS].chunks_exact_mut(8).zip(sums) {
            // SAFETY: `out` has 8 floats, and the store needs no alignment.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr(), lanes) };
        }
        8 * VECTORS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: usize, dim: usize) -> Table {
        let values = (0..rows * dim).map(|i| (i * 37).to_le_bytes()[0].cast_signed()).collect();
        let scales = (0..rows).map(|row| 0.001 + row as f32 * 0.0137).collect();
        Table { id: 1, dim, values, scales }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        let ids: Vec<u32> = (0..97).map(|i| i * 31 % 50).collect();
        for dim in [1, 7, 8, 15, 16, 17, 63, 64, 65, 128, 200, 256, 300, 513] {
            let table = table(50, dim);
            let mut plain = vec![f32::NAN; dim];
            sum_rows_portable(&table, &ids, &mut plain, 0);
            let mut vector = vec![f32::NAN; dim];
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has AVX2.
                unsafe { x86::sum_rows_avx2(&table, &ids, &mut vector) };
                assert_eq!(plain, vector, "avx2, {dim} dimensions");
            }
            vector.fill(f32::NAN);
            if is_x86_feature_detected!("avx512f") {
                // SAFETY: the processor has AVX-512F.
                unsafe { x86::sum_rows_avx512(&table, &ids, &mut vector) };
                assert_eq!(plain, vector, "avx512, {dim} dimensions");
            }
        }
    }

    #[test]
    fn the_sum_of_no_rows_is_zero() {
        let mut sum = [f32::NAN; 24];
        sum_rows(&table(2, 24), &[], &mut sum);
        assert_eq!(sum.map(f32::to_bits), [0; 24]);
    }
}
