//! Comparison of parse responses, source by source.

use std::ops::Range;

use accelerd_kernels::ops::parse::{BatchColumns, Column, Counts, ParseResponse};

/// Tables of columns: nodes, names, values, bytes, lines, tokens, comments.
type Parts = [Range<usize>; 7];

/// The sources for which two responses to one request differ, each with the first difference.
pub fn differences(expected: &ParseResponse, got: &ParseResponse) -> Vec<(usize, &'static str)> {
    if expected == got {
        return vec![];
    }
    let mut found = vec![];
    if expected.results.len() != got.results.len() {
        found.push((expected.results.len().min(got.results.len()), "how many results there are"));
    }
    let mut theirs = Parts::default();
    let mut ours = Parts::default();
    for (index, (one, other)) in expected.results.iter().zip(&got.results).enumerate() {
        (theirs, ours) = (next(&theirs, &one.counts), next(&ours, &other.counts));
        let columns = || column(&expected.columns, &theirs, &got.columns, &ours);
        let what = if one == other { columns() } else { Some("its result") };
        found.extend(what.map(|what| (index, what)));
    }
    // Entries after the last source belong to none.
    if found.is_empty() {
        found.push((expected.results.len(), "what columns have behind the last source"));
    }
    found
}

/// The parts of columns that follow others.
fn next(before: &Parts, counts: &Counts) -> Parts {
    let Counts { nodes, names, values, extra, lines, tokens, comments } = *counts;
    let mut sizes = [nodes, names, values, extra, lines, tokens, comments].into_iter();
    before.each_ref().map(|range| range.end..range.end + sizes.next().map_or(0, |size| size as usize))
}

/// The first column that differs between two sources.
fn column(expected: &BatchColumns, theirs: &Parts, got: &BatchColumns, ours: &Parts) -> Option<&'static str> {
    let words = |name, table: usize, column: fn(&BatchColumns) -> &Column<u32>| {
        let same = column(expected).get(theirs[table].clone()) == column(got).get(ours[table].clone());
        (!same).then_some(name)
    };
    let bytes = |name, table: usize, column: fn(&BatchColumns) -> &Column<u8>| {
        let same = column(expected).get(theirs[table].clone()) == column(got).get(ours[table].clone());
        (!same).then_some(name)
    };
    let all = [
        bytes("kinds", 0, |columns| &columns.kinds),
        bytes("fields", 0, |columns| &columns.fields),
        words("parents", 0, |columns| &columns.parents),
        words("starts", 0, |columns| &columns.starts),
        words("ends", 0, |columns| &columns.ends),
        words("aux", 0, |columns| &columns.aux),
        words("name_starts", 1, |columns| &columns.name_starts),
        words("name_ends", 1, |columns| &columns.name_ends),
        bytes("value_tags", 2, |columns| &columns.value_tags),
        words("value_starts", 2, |columns| &columns.value_starts),
        words("value_ends", 2, |columns| &columns.value_ends),
        bytes("extra", 3, |columns| &columns.extra),
        words("line_starts", 4, |columns| &columns.line_starts),
        bytes("token_kinds", 5, |columns| &columns.token_kinds),
        words("token_starts", 5, |columns| &columns.token_starts),
        words("token_ends", 5, |columns| &columns.token_ends),
        words("comment_starts", 6, |columns| &columns.comment_starts),
        words("comment_ends", 6, |columns| &columns.comment_ends),
    ];
    all.into_iter().flatten().next()
}

#[cfg(test)]
mod tests {
    use std::ops::BitXor;

    use accelerd_kernels::ops::parse::{Options, Outputs, Parse, ParseRequest};

    use bytemuck::Pod;

    use super::*;
    use crate::{device, open, run_batch};

    fn answer() -> ParseResponse {
        let sources = ["x = 'a\\n'\n", "é = (1\n", "def f(a): return a.b  # c\n"].map(|text| text.as_bytes().into());
        let outputs = Outputs { tree: true, tokens: true, comments: true, outline: true, line_starts: true };
        let request = ParseRequest::new(sources.to_vec(), Options::version(14), outputs);
        let mut backend = open(device(false).expect("a CPU")).expect("it opens");
        run_batch::<Parse>(&[request], &mut backend).expect("parses").remove(0)
    }

    fn first<T: Pod + From<u8> + BitXor<Output = T>>(column: &mut Column<T>) {
        let mut numbers = column.to_vec();
        numbers[0] = numbers[0] ^ T::from(1);
        *column = numbers.into();
    }

    fn last(column: &mut Column<u32>) {
        let mut numbers = column.to_vec();
        *numbers.last_mut().expect("there are some") += 1;
        *column = numbers.into();
    }

    fn longer(column: &mut Column<u32>) {
        *column = [&**column, &[0]].concat().into();
    }

    /// A change and the expected difference.
    type Changed = (fn(&mut ParseResponse), usize, &'static str);

    #[test]
    fn every_change_is_found_in_its_source() {
        let expected = answer();
        assert_eq!(differences(&expected, &expected.clone()), []);
        let changes: [Changed; 9] = [
            (|answer| first(&mut answer.columns.kinds), 0, "kinds"),
            (|answer| last(&mut answer.columns.ends), 2, "ends"),
            (|answer| last(&mut answer.columns.name_starts), 2, "name_starts"),
            (|answer| first(&mut answer.columns.extra), 0, "extra"),
            (|answer| first(&mut answer.columns.comment_ends), 2, "comment_ends"),
            (|answer| first(&mut answer.columns.token_kinds), 0, "token_kinds"),
            (|answer| answer.results[1].diagnostic = None, 1, "its result"),
            (|answer| longer(&mut answer.columns.aux), 3, "what columns have behind the last source"),
            (|answer| drop(answer.results.pop()), 2, "how many results there are"),
        ];
        for (change, source, what) in changes {
            let mut got = expected.clone();
            change(&mut got);
            assert_eq!(differences(&expected, &got), [(source, what)]);
        }
    }
}
