//! Policies: which pairs of elements count as equal.

use accelerd_ir::Dtype;

/// Which pairs of elements count as equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// The rules for finite numbers.
    pub rules: Rules,
    /// The rule for NaN.
    pub nan: NanPolicy,
    /// The rule for infinities.
    pub infinity: InfinityPolicy,
    /// True if -0 and +0 differ.
    pub distinguish_zero_sign: bool,
}

/// The rules for finite numbers that are not equal. Without any, none of them pass.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rules {
    /// Bounds the absolute error by a multiple of the expected number.
    pub close: Option<Close>,
    /// Bounds the distance in units in the last place.
    pub max_ulps: Option<u64>,
    /// Bounds the absolute error by this multiple of the largest finite expected number of the tensor.
    pub max_norm: Option<f64>,
    /// Which of the rules must hold.
    pub combination: Combination,
}

/// `|actual - expected| <= atol + rtol * |expected|`, the rule of NumPy and torch.testing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Close {
    /// Absolute tolerance.
    pub atol: f64,
    /// Relative tolerance.
    pub rtol: f64,
}

/// Which of several rules must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combination {
    /// At least one.
    #[default]
    Any,
    /// All.
    All,
}

/// The rule for pairs with a NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NanPolicy {
    /// They fail, also if both are NaN.
    #[default]
    Forbidden,
    /// They pass if both are NaN.
    Equal,
    /// They pass if both are NaN of the same sign and payload.
    SameBits,
}

/// The rule for pairs with an infinity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InfinityPolicy {
    /// They pass if both are the same infinity.
    #[default]
    Equal,
    /// They fail.
    Forbidden,
}

impl Policy {
    /// The policy of `torch.testing.assert_close` for a type.
    pub fn of(dtype: Dtype) -> Self {
        Self { rules: Rules { close: Some(Close::of(dtype)), ..Rules::default() }, ..Self::exact() }
    }

    /// No tolerance: finite numbers must be equal.
    pub fn exact() -> Self {
        Self {
            rules: Rules::default(),
            nan: NanPolicy::default(),
            infinity: InfinityPolicy::default(),
            distinguish_zero_sign: false,
        }
    }
}

impl Close {
    /// The tolerances of torch.testing for a type.
    pub fn of(dtype: Dtype) -> Self {
        let (rtol, atol) = match dtype {
            Dtype::F16 => (1e-3, 1e-5),
            Dtype::Bf16 => (1.6e-2, 1e-5),
            Dtype::F32 => (1.3e-6, 1e-5),
            Dtype::F64 => (1e-7, 1e-7),
            Dtype::Bool
            | Dtype::U8
            | Dtype::I8
            | Dtype::U16
            | Dtype::I16
            | Dtype::U32
            | Dtype::I32
            | Dtype::U64
            | Dtype::I64 => (0.0, 0.0),
        };
        Self { atol, rtol }
    }
}

impl Rules {
    /// The tolerances of the rule [`Close`]; zeros without it.
    pub(super) fn tolerances(&self) -> Close {
        self.close.unwrap_or(Close { atol: 0.0, rtol: 0.0 })
    }

    /// Returns true if numbers pass whose errors are at most these. `norm_bound` is the bound of the rule [`Self::max_norm`].
    pub(super) fn accept(&self, errors: Errors, norm_bound: f64) -> bool {
        let verdicts = [
            self.close.map(|close| errors.excess <= close.atol),
            self.max_ulps.map(|limit| errors.ulps <= limit),
            self.max_norm.map(|_| errors.absolute <= norm_bound),
        ];
        let mut verdicts = verdicts.into_iter().flatten().peekable();
        match self.combination {
            Combination::Any => verdicts.any(|passes| passes),
            Combination::All => verdicts.peek().is_some() && verdicts.all(|passes| passes),
        }
    }
}

/// Errors of one pair of finite numbers, or the largest of several pairs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Errors {
    /// `|actual - expected|`.
    pub(super) absolute: f64,
    /// `|actual - expected| - rtol * |expected|`.
    pub(super) excess: f64,
    /// Units in the last place between the numbers.
    pub(super) ulps: u64,
}

/// The amount by which the difference exceeds the relative tolerance. Each operation rounds once. A difference that overflows is beyond any
/// tolerance.
#[inline]
pub(super) fn excess(difference: f64, rtol: f64, magnitude: f64) -> f64 {
    if difference == f64::INFINITY { f64::INFINITY } else { difference - rtol * magnitude }
}
