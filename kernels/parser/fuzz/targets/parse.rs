//! The parser neither panics nor returns inconsistent columns for any input. The first byte selects the feature
//! version.
//!
//! `just fuzz parse` runs it.
#![no_main]

use accelerd_parser::{NONE, Options, Tree, outline, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&version, source)) = data.split_first() else { return };
    let parsed = parse(source, &Options::version(8 + version % 7));
    match &parsed.outcome {
        Ok(columns) => {
            let rows = columns.kinds.len();
            assert!(columns.parents.iter().all(|&parent| parent == NONE || (parent as usize) < rows));
            let spans = columns.starts.iter().zip(&columns.ends);
            assert!(spans.into_iter().all(|(start, end)| start <= end && *end as usize <= parsed.text.len()));
            outline::outline(&Tree::new(parsed.text.as_bytes(), columns));
        }
        Err(error) => assert!(error.start <= error.end || !error.message.is_empty()),
    }
});
