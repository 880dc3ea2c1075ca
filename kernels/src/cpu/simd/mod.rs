//! Dispatch by instruction set: kernels are written once, generic over [`Lanes`], and compiled for each instruction
//! set.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use std::sync::OnceLock;

mod lanes;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use lanes::{Lanes, WithSimd};
use portable::Portable;

/// An instruction set that this machine supports; the constructors check that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Isa(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Isa {
    /// The widest instruction set of this machine.
    pub(crate) fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Self::all()[0])
    }

    /// All instruction sets of this machine, the widest first.
    pub(crate) fn all() -> Vec<Self> {
        let mut supported = vec![];
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                supported.push(Self(Kind::Avx512));
            }
            if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                supported.push(Self(Kind::Avx2));
            }
        }
        supported.push(Self(Kind::Portable));
        supported
    }

    /// Runs code compiled for this instruction set.
    #[inline]
    pub(crate) fn run<C: WithSimd>(self, code: C) -> C::Out {
        match self.0 {
            // SAFETY: this value exists only if the machine was found to have the features.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { x86::with_avx512(code) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { x86::with_avx2(code) },
            Kind::Portable => code.run(Portable),
        }
    }
}

/// Prefetches numbers into the second-level cache.
pub(crate) fn prefetch(numbers: &[f32]) {
    Isa::best().run(PrefetchLines(numbers));
}

struct PrefetchLines<'a>(&'a [f32]);

impl WithSimd for PrefetchLines<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        prefetch_with(lanes, self.0);
    }
}

/// [`prefetch`] inside a kernel.
#[inline(always)]
pub(crate) fn prefetch_with<L: Lanes>(lanes: L, numbers: &[f32]) {
    numbers.chunks(16).for_each(|line| lanes.prefetch(line.as_ptr()));
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "small integers are exact")]
mod tests {
    use super::*;

    struct Check;

    impl WithSimd for Check {
        type Out = ();

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) {
            let numbers: Vec<f32> = (0_u8..16).map(|i| f32::from(i) - 3.0).collect();
            let pointer = numbers.as_ptr();
            let width = L::WIDTH;
            // SAFETY: 16 numbers are there, and no vector is wider.
            let (x, part) = unsafe { (lanes.load(pointer), lanes.load_first(pointer, width - 1)) };
            assert_eq!(lanes.sum(x), numbers[..width].iter().sum::<f32>());
            assert_eq!(lanes.sum(part), numbers[..width - 1].iter().sum::<f32>());
            assert_eq!(lanes.largest(x), numbers[width - 1]);
            assert_eq!(lanes.equal(x, lanes.splat(-1.0)), 1 << 2);
            assert_eq!(lanes.not_at_most(lanes.splat(0.5), x), 0b1111);
            assert_eq!(lanes.not_at_most(lanes.splat(f32::NAN), x).count_ones() as usize, width, "NaN passes");
            assert_eq!(lanes.sum(lanes.max(lanes.zero(), lanes.splat(2.0))), 2.0 * width as f32);
            assert_eq!(lanes.sum(lanes.min(lanes.zero(), lanes.splat(2.0))), 0.0);
            assert_eq!(lanes.sum(lanes.sub(x, lanes.splat(1.0))), lanes.sum(x) - width as f32);
            assert_eq!(lanes.sum(lanes.mul(x, lanes.splat(2.0))), 2.0 * lanes.sum(x));
            assert_eq!(lanes.sum(lanes.div(x, lanes.splat(2.0))), lanes.sum(x) / 2.0);
            for (a, b) in [(1.0, 3.0), (-7.3e20, 1e-9), (5e-20, 7e15), (0.0, 2.0_f32)] {
                let got = lanes.largest(lanes.quotient(lanes.splat(a), lanes.splat(b)));
                assert!((got - a / b).abs() <= (a / b).abs() * f32::EPSILON, "{a} / {b} = {got}");
            }
            for (number, rounded) in [(2.5, 2.0), (-3.5, -4.0), (0.49, 0.0)] {
                assert_eq!(lanes.largest(lanes.round(lanes.splat(number))), rounded);
            }
            for power in [-126.0, -1.0, 0.0, 127.0_f32] {
                assert_eq!(lanes.largest(lanes.power_of_two(lanes.splat(power))), power.exp2());
            }
            let mut out = [0.0; 16];
            // SAFETY: 16 numbers have room.
            unsafe { lanes.store(out.as_mut_ptr(), lanes.mul_add(x, lanes.splat(2.0), lanes.splat(1.0))) };
            assert_eq!(out[3], 1.0);
            assert_eq!(out[4], 3.0);
        }
    }

    #[test]
    fn every_instruction_set_computes_the_same() {
        for isa in Isa::all() {
            isa.run(Check);
        }
    }
}
