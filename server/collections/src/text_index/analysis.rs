//! Splits texts and queries into terms.
//!
//! Texts are normalised to NFKC, so that composed and decomposed letters, and full and half width, are alike. Terms are
//! words in lower case, as [`words`] splits them, except in scripts that write no spaces between words, or, as Korean does,
//! attach particles to them. Those are indexed by unigrams and bigrams of characters, as Lucene's `CJKAnalyzer` does: a
//! dictionary may split a word otherwise in a query than in a sentence, while the bigrams of a word are always among those
//! of a sentence with it.

use accelerd_models::words;
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, char::is_combining_mark, is_nfkc_quick};

/// Maximum bytes of a character with its marks, of which a text may have any number.
const MAX_CHARACTER_BYTES: usize = 64;

/// The terms of a run of characters without spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grams {
    /// Each character, and each pair of adjacent ones.
    OfDocument,
    /// Each pair of adjacent characters, or the only character.
    OfQuery,
}

/// Allocations reused for every text.
#[derive(Debug, Default)]
pub(super) struct Analyzer {
    /// The letters and digits so far of a run in a script with spaces.
    run: String,
    /// The last two characters of a run in a script without spaces, with their marks.
    pair: String,
    /// Where the last of the two starts.
    last: usize,
    /// Characters of that run so far.
    characters: usize,
    term: String,
}

impl Analyzer {
    /// Calls `each` with each term of a text, in order.
    pub(super) fn each_term(&mut self, text: &str, grams: Grams, mut each: impl FnMut(&str)) {
        if text.is_ascii() {
            words(text).for_each(|word| each(lower(word, &mut self.term)));
        } else if is_nfkc_quick(text.chars()) == IsNormalized::Yes {
            text.chars().for_each(|c| self.push(c, grams, &mut each));
        } else {
            text.nfkc().for_each(|c| self.push(c, grams, &mut each));
        }
        self.end_word(&mut each);
        self.end_characters(grams, &mut each);
    }

    fn push(&mut self, c: char, grams: Grams, each: &mut impl FnMut(&str)) {
        let follows = self.characters > 0;
        if follows && is_ignorable(c) {
            return;
        }
        if follows && is_combining_mark(c) {
            if self.pair.len() - self.last < MAX_CHARACTER_BYTES {
                self.pair.push(c);
            }
        } else if is_unspaced(c) {
            self.end_word(each);
            self.end_character(grams, each);
            self.pair.drain(..self.last);
            self.last = self.pair.len();
            self.pair.push(c);
            self.characters += 1;
        } else {
            self.end_characters(grams, each);
            if c.is_alphanumeric() { self.run.push(c) } else { self.end_word(each) }
        }
    }

    fn end_word(&mut self, each: &mut impl FnMut(&str)) {
        words(&self.run).for_each(|word| each(lower(word, &mut self.term)));
        self.run.clear();
    }

    fn end_character(&mut self, grams: Grams, each: &mut impl FnMut(&str)) {
        if self.characters > 0 && grams == Grams::OfDocument {
            each(&self.pair[self.last..]);
        }
        if self.characters > 1 {
            each(&self.pair);
        }
    }

    fn end_characters(&mut self, grams: Grams, each: &mut impl FnMut(&str)) {
        self.end_character(grams, each);
        if self.characters == 1 && grams == Grams::OfQuery {
            each(&self.pair);
        }
        self.pair.clear();
        (self.last, self.characters) = (0, 0);
    }
}

/// The word in lower case, in `to`.
fn lower<'a>(word: &str, to: &'a mut String) -> &'a str {
    to.clear();
    if word.is_ascii() {
        to.push_str(word);
        to.make_ascii_lowercase();
    } else {
        to.push_str(&word.to_lowercase());
    }
    to
}

/// Returns true for a letter or digit of a script without spaces between words, and of Korean.
fn is_unspaced(c: char) -> bool {
    let is_in_block = matches!(c,
        '\u{e00}'..='\u{eff}' // Thai, Lao
        | '\u{1000}'..='\u{109f}' | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aa7f}' // Myanmar
        | '\u{1780}'..='\u{17ff}' // Khmer
        | '\u{1950}'..='\u{19df}' | '\u{1a20}'..='\u{1aaf}' | '\u{aa80}'..='\u{aadf}' // Tai scripts
        | '\u{1100}'..='\u{11ff}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}' // Hangul
        | '\u{2e80}'..='\u{a4cf}' // Kana, Bopomofo, Han, Yi
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}' // Han
        | '\u{1aff0}'..='\u{1b16f}' // Kana
    );
    is_in_block && c.is_alphanumeric()
}

/// Returns true for a character that shows nothing: a soft hyphen, a joiner, a variation selector.
fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms(text: &str, grams: Grams) -> Vec<String> {
        let mut terms = vec![];
        Analyzer::default().each_term(text, grams, |term| terms.push(term.to_owned()));
        terms
    }

    fn joined(text: &str, grams: Grams) -> String {
        terms(text, grams).join(" ")
    }

    #[test]
    fn ascii_is_split_as_identifiers_are() {
        for grams in [Grams::OfDocument, Grams::OfQuery] {
            assert_eq!(joined("parseHTTPUrl2(file_name) -> URLs", grams), "parse http url 2 file name urls");
            assert_eq!(joined("naïveÜber x² ﬁle", grams), "naïveüber x 2 file");
            assert_eq!(joined(" \u{0} -- ", grams), "");
        }
    }

    #[test]
    fn runs_without_spaces_are_split_into_characters_and_pairs() {
        assert_eq!(joined("東京都", Grams::OfDocument), "東 京 東京 都 京都");
        assert_eq!(joined("東京都", Grams::OfQuery), "東京 京都");
        assert_eq!(joined("猫", Grams::OfDocument), "猫");
        assert_eq!(joined("猫", Grams::OfQuery), "猫");
        assert_eq!(joined("학교에서", Grams::OfQuery), "학교 교에 에서");
        assert_eq!(joined("データベース", Grams::OfQuery), "デー ータ タベ ベー ース");
        assert_eq!(joined("a・猫、犬b", Grams::OfQuery), "a 猫 犬 b");
    }

    #[test]
    fn marks_belong_to_their_character_and_are_limited() {
        assert_eq!(joined("น้ำ", Grams::OfDocument), joined("น้\u{e4d}า", Grams::OfDocument));
        assert_eq!(joined("ที่นี่", Grams::OfQuery), "ที่นี่");
        assert_eq!(joined("葛\u{e0100}城", Grams::OfQuery), "葛城");
        assert_eq!(joined("ກິນ\u{200b}ເຂົ້າ", Grams::OfQuery), joined("ກິນເຂົ້າ", Grams::OfQuery));
        let zalgo = format!("猫{}", "\u{301}".repeat(10_000));
        let found = terms(&zalgo, Grams::OfDocument);
        assert!(found.len() == 1 && found[0].len() <= MAX_CHARACTER_BYTES + 1, "{}", found[0].len());
    }

    #[test]
    fn identifiers_within_other_scripts_are_split_as_alone() {
        assert_eq!(joined("関数parseHTTPUrl2を呼ぶ", Grams::OfQuery), "関数 parse http url 2 を呼 呼ぶ");
        assert_eq!(joined("2024年第3章", Grams::OfQuery), "2024 年第 3 章");
        assert_eq!(joined("getＵｓｅｒName", Grams::OfQuery), "get user name");
    }

    #[test]
    fn equivalent_texts_have_equal_terms() {
        for (one, other) in [
            ("\u{e9}cole Ångström", "e\u{301}cole A\u{30a}ngstro\u{308}m"),
            ("ＡＢＣ１２３", "ABC123"),
            ("ﾃﾞｰﾀﾍﾞｰｽ", "データベース"),
            ("か\u{3099}く", "がく"),
            ("\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}", "한국"),
            ("\u{2f00}", "一"),
        ] {
            for grams in [Grams::OfDocument, Grams::OfQuery] {
                assert_eq!(terms(one, grams), terms(other, grams), "{one}");
            }
        }
    }

    proptest! {
        /// Any part of a run without spaces is found, since its terms are among those of the run.
        #[test]
        fn the_terms_of_each_part_of_a_run_are_terms_of_the_run(
            run in "[一二三四あいうアイウ가나다กขคงจ]{1,12}",
            before in "[ -~猫กé\u{301}]{0,6}",
            start in 0..12_usize,
            length in 1..12_usize,
        ) {
            let characters: Vec<char> = run.chars().collect();
            let start = start.min(characters.len() - 1);
            let part: String = characters[start..].iter().take(length).collect();
            let whole = terms(&format!("{before}{run}"), Grams::OfDocument);
            let asked = terms(&part, Grams::OfQuery);
            prop_assert!(!asked.is_empty());
            prop_assert!(asked.iter().all(|term| whole.contains(term)), "{part:?} in {run:?}: {asked:?} in {whole:?}");
        }

        #[test]
        fn any_text_has_the_terms_of_its_normal_forms(text in ".{0,40}") {
            let nfd: String = text.nfd().collect();
            let nfkc: String = text.nfkc().collect();
            for grams in [Grams::OfDocument, Grams::OfQuery] {
                prop_assert_eq!(terms(&text, grams), terms(&nfd, grams));
                prop_assert_eq!(terms(&text, grams), terms(&nfkc, grams));
            }
        }

        #[test]
        fn ascii_texts_have_the_words_of_earlier_versions(text in "[ -~]{0,60}") {
            let expected: Vec<_> = words(&text).map(str::to_lowercase).collect();
            prop_assert_eq!(terms(&text, Grams::OfDocument), &expected[..]);
            // The same among others.
            let beside = terms(&format!("猫 {text} é"), Grams::OfQuery);
            prop_assert_eq!(&beside[1..beside.len() - 1], &expected[..]);
        }
    }
}
