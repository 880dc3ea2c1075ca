//! Launches of a screen, and their findings.

use std::ops::Range;

use accelerd_ir::kernel::FaultKind;

use super::Screen;

/// Kinds of faults of each side.
const KINDS: usize = FaultKind::ALL.len();

/// Bytes of a word of the bitmap of open cases.
const WORD: u64 = 4;

/// A launch with a thread for each case. The memory is zero but for the segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenLaunch {
    /// Bytes of the memory.
    pub memory_bytes: u64,
    /// Addresses and what lies there.
    pub segments: Vec<(u32, Vec<u8>)>,
    /// The parameter block.
    pub params: Vec<u8>,
    /// Where the block has addresses of the memory.
    pub addresses: Vec<u32>,
    /// The bytes that are read afterwards, for [`Screened::new`].
    pub result: Range<u64>,
}

/// The findings of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Screened {
    /// Cases of the launch.
    pub cases: u64,
    /// Cases that are decided and in which neither side has a result, by how subject and reference ended. They are not in any order.
    pub faults: Vec<([FaultKind; 2], u64)>,
    /// For each output, the largest absolute value of the finite results of the reference in the decided cases.
    pub norms: Vec<f64>,
    /// For each output, the decided cases in which both results are NaN.
    pub nans: Vec<u64>,
    /// A bit for each case: 1 if it is open.
    open: Vec<u8>,
}

/// A result that no launch of a screen has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the result is none of a screen")]
pub struct ScreenedError;

impl Screen {
    /// Screens `cases` cases from case `first` on, at least [`Self::first_case`]; numbers of cases wrap at 2^64.
    ///
    /// # Panics
    /// If there are 2^34 cases or more, whose memory has no 32-bit addresses.
    pub fn launch(&self, first: u64, cases: u64) -> ScreenLaunch {
        let specials = self.specials.len() as u64;
        let norms = specials + 8 * (KINDS * KINDS) as u64;
        let nans = norms + 8 * self.outputs as u64;
        let open = nans + 8 * self.outputs as u64;
        let memory_bytes = open + bitmap_bytes(cases);
        assert!(u32::try_from(memory_bytes).is_ok(), "{cases} cases are too many for a launch");
        let words = [0, specials, norms, nans, open, first, self.seed].into_iter().chain(self.keys.iter().copied());
        ScreenLaunch {
            memory_bytes,
            segments: vec![(0, self.specials.clone())],
            params: words.flat_map(u64::to_le_bytes).collect(),
            addresses: vec![0, 8, 16, 24, 32],
            result: specials..memory_bytes,
        }
    }

    /// Reads the findings of a launch of `cases` cases from [`ScreenLaunch::result`].
    ///
    /// # Errors
    /// It has another length, or more cases than there were.
    pub fn screened(&self, result: &[u8], cases: u64) -> Result<Screened, ScreenedError> {
        let (counts, rest) = result.split_at_checked(8 * KINDS * KINDS).ok_or(ScreenedError)?;
        let (norms, rest) = rest.split_at_checked(8 * self.outputs).ok_or(ScreenedError)?;
        let (nans, open) = rest.split_at_checked(8 * self.outputs).ok_or(ScreenedError)?;
        if open.len() as u64 != bitmap_bytes(cases) {
            return Err(ScreenedError);
        }
        let pairs = FaultKind::ALL.into_iter().flat_map(|subject| FaultKind::ALL.map(|reference| [subject, reference]));
        let faults = pairs.zip(words(counts)).filter(|(_, count)| *count > 0).collect();
        let norms = words(norms).map(f64::from_bits).collect();
        Screened { cases, faults, norms, nans: words(nans).collect(), open: open.to_vec() }.checked()
    }
}

impl Screened {
    /// Cases whose results are all equal and 0, but for the open ones: `open` has a bit for each, from the lowest of the first byte on.
    ///
    /// # Errors
    /// A bit belongs to no case.
    pub fn new(cases: u64, open: Vec<u8>) -> Result<Self, ScreenedError> {
        Self { cases, faults: vec![], norms: vec![], nans: vec![], open }.checked()
    }

    /// The open cases from a case on, in order, counted from the first one of the launch.
    pub fn open_cases_from(&self, first: u64) -> impl Iterator<Item = u64> {
        let start = usize::try_from(first / 8).unwrap_or(usize::MAX).min(self.open.len());
        let bytes = (first / 8..).zip(&self.open[start..]).filter(|(_, byte)| **byte != 0);
        let cases = bytes.flat_map(|(nth, byte)| {
            let byte = *byte;
            (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| nth * 8 + bit)
        });
        cases.skip_while(move |case| *case < first)
    }

    /// Number of the open cases.
    pub fn open_count(&self) -> u64 {
        self.open.iter().map(|byte| u64::from(byte.count_ones())).sum()
    }

    /// Returns an error if the counts are not those of the cases, or a norm is not a number.
    fn checked(self) -> Result<Self, ScreenedError> {
        let faults = self.faults.iter().try_fold(0_u64, |sum, (_, count)| sum.checked_add(*count));
        let without = faults.and_then(|faults| faults.checked_add(self.open_count()));
        let with_results = without.and_then(|without| self.cases.checked_sub(without)).ok_or(ScreenedError)?;
        let is_sound = self.open_cases_from(self.cases).next().is_none()
            && self.norms.iter().all(|norm| *norm >= 0.0)
            && self.nans.iter().all(|count| *count <= with_results);
        if is_sound { Ok(self) } else { Err(ScreenedError) }
    }
}

fn bitmap_bytes(cases: u64) -> u64 {
    cases.div_ceil(8 * WORD) * WORD
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word))
}
