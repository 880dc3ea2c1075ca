//! Splits source code and prose into words, for full-text search.

use crate::tokenizer::word_length;

/// The words of a text: runs of letters and digits; ASCII runs are split at camelCase and between letters and digits.
/// `parseHTTPUrl2` is `parse`, `HTTP`, `Url` and `2`.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()).flat_map(|run| {
        let mut rest = run;
        std::iter::from_fn(move || {
            let length = match rest.as_bytes() {
                [] => return None,
                bytes if bytes.is_ascii() => word_length(bytes),
                bytes => bytes.len(),
            };
            let word;
            (word, rest) = rest.split_at(length);
            Some(word)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn ascii_runs_are_split_at_camel_case() {
        let found = |text| words(text).collect::<Vec<_>>().join(" ");
        assert_eq!(found("parseHTTPUrl2(file_name) -> URLs"), "parse HTTP Url 2 file name URLs");
        assert_eq!(found("naïveÜber 数据 "), "naïveÜber 数据");
        assert_eq!(found(" \u{0} -- "), "");
    }
}
